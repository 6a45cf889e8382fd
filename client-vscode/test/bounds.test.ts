/** Limits of tokens and modes in words, and as a user types them. */

import { expect, test } from "vitest";
import type { SessionDetail } from "../../protocol/typescript/wire.ts";
import { brief, budgetWords, modeLabel, nearestBudget, parseTokens, raiseOf } from "../src/common/bounds.ts";

const detail = (more: Partial<SessionDetail>): SessionDetail => ({ inputTokens: 30, outputTokens: 10, turnTokens: 20, ...more }) as SessionDetail;

test("the limit that is nearest to its end is shown, and none where none is set", () => {
  expect(nearestBudget(null)).toBeNull();
  expect(nearestBudget(detail({}))).toBeNull();
  expect(nearestBudget(detail({ turnTokensMax: null, sessionTokensMax: 50 }))).toEqual({ whose: "session", used: 40, limit: 50 });
  expect(nearestBudget(detail({ turnTokensMax: 21, sessionTokensMax: 50 }))?.whose).toBe("turn");
  expect(budgetWords({ whose: "turn", used: 1200, limit: 50_000 })).toContain("1,200 of 50,000 tokens of this turn");
});

test.each([
  ["", null],
  ["50000", 50_000],
  ["50k", 50_000],
  ["1.5 M", 1_500_000],
  ["50,000", 50_000],
  ["0", undefined],
  ["-1", undefined],
  ["many", undefined],
  ["1e9", undefined],
])("typed %j is %j", (typed, tokens) => expect(parseTokens(typed)).toBe(tokens));

test("counts are brief, and modes have their names", () => {
  expect([850, 1000, 12_400, 50_000, 123_456, 2_000_000].map(brief)).toEqual(["850", "1k", "12.4k", "50k", "123k", "2M"]);
  expect([modeLabel("agent"), modeLabel("plan")]).toEqual(["Agent", "Plan"]);
});

test("a limit that has no room is raised by half in a round number, and by what the next request needs", () => {
  const idle = { turnId: null, nextTokens: 30 };
  expect(raiseOf(null)).toBeNull();
  expect(raiseOf(detail(idle))).toBeNull();
  expect(raiseOf(detail({ ...idle, sessionTokensMax: 200 }))).toBeNull();
  expect(raiseOf(detail({ ...idle, turnId: "t1", sessionTokensMax: 50 }))).toBeNull();
  expect(raiseOf(detail({ ...idle, sessionTokensMax: 50, turnTokensMax: 90 }))).toEqual({ whose: "session", by: 30 });
  expect(raiseOf(detail({ ...idle, turnTokensMax: 20_000 }))).toEqual({ whose: "turn", by: 10_000 });
  expect(raiseOf(detail({ ...idle, nextTokens: 8_200, turnTokensMax: 1_000 }))).toEqual({ whose: "turn", by: 9_000 });
});
