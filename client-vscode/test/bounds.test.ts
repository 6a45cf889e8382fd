/** Limits of tokens and money and modes in words, and as a user types them. */

import { expect, test } from "vitest";
import type { SessionDetail } from "../../protocol/typescript/wire.ts";
import {
  beginWithin,
  brief,
  budgetBrief,
  limitsOf,
  limitsWith,
  modeLabel,
  nearestBudget,
  parseTokens,
  parseUsd,
  raiseOf,
  raiseWords,
  startLimits,
  usd,
} from "../src/common/bounds.ts";

const USD = 1e9;
const detail = (more: Partial<SessionDetail>): SessionDetail =>
  ({ turnId: "t1", inputTokens: 30, outputTokens: 10, turnTokens: 20, ...more }) as SessionDetail;
const idle = { turnId: null, nextTokens: 30, limitReached: true };

test("the limit that is nearest to its end is shown, and none where none is set", () => {
  expect(nearestBudget(null)).toBeNull();
  expect(nearestBudget(detail({}))).toBeNull();
  expect(nearestBudget(detail({ turnTokensMax: null, sessionTokensMax: 50 }))).toMatchObject({ whose: "session", used: 40, limit: 50 });
  expect(nearestBudget(detail({ turnTokensMax: 21, sessionTokensMax: 50 }))?.whose).toBe("turn");
  const both = nearestBudget(detail({ sessionTokensMax: 1000, sessionNanoUsd: 0.42 * USD, sessionNanoUsdMax: 2 * USD, turnTokensMax: 50_000 }));
  expect(both === null ? "" : budgetBrief(both)).toBe("$0.42 of $2.00");
  expect(both?.words.split("\n")).toEqual([
    "$0.42 of $2.00 of this session used. A request that would pass the limit is not made.",
    "40 of 1,000 tokens of this session used. A request that would pass the limit is not made.",
    "20 of 50,000 tokens of this turn used. A request that would pass the limit is not made.",
  ]);
});

test("between turns a turn's limit is what the next one may use, and after it ended one what that one used", () => {
  const limits = { turnTokens: 12_400, turnTokensMax: 20_000, nextTokens: 9_000 };
  const words = (more: Partial<SessionDetail>): string => {
    const budget = nearestBudget(detail({ ...limits, ...more }));
    return budget === null ? "" : `${budgetBrief(budget)}: ${budget.words}`;
  };
  expect(words({ turnId: null })).toMatch(/^20k a turn: 20,000 tokens for the next turn\./);
  expect(words({ ...idle, nextTokens: 9_000 })).toMatch(/^12\.4k of 20k: 12,400 of 20,000 tokens of the last turn used\./);
  expect(words({ ...idle, nextTokens: 9_000, turnTokensMax: 30_000 })).toMatch(/^30k a turn: /);
  expect(words({})).toMatch(/^12\.4k of 20k: 12,400 of 20,000 tokens of this turn used\./);
  expect(words({ turnId: null, turnTokens: 19_999, sessionTokensMax: 400 })).toMatch(/^40 of 400: /); // the part of the last turn is none of the next
  expect(words({ turnId: null, turnTokensMax: null, turnNanoUsdMax: 0.5 * USD })).toMatch(/^\$0\.50 a turn: \$0\.50 for the next turn\./);
});

test("what no provider counted is told as about so many, where it is shown and in full", () => {
  const words = (more: Partial<SessionDetail>): string => {
    const budget = nearestBudget(detail(more));
    return budget === null ? "" : `${budgetBrief(budget)}: ${budget.words}`;
  };
  const kept = "A request that would pass the limit is not made.";
  expect(words({ sessionTokensMax: 50, uncountedTokens: 9 })).toBe(
    `about 40 of 50: About 40 of 50 tokens of this session used. About 9 are of requests that ended without a count. ${kept}`,
  );
  expect(words({ turnTokensMax: 50, turnUncountedTokens: 9 })).toMatch(/^about 20 of 50: About 20 of 50 tokens of this turn used\. About 9 /);
  expect(words({ turnTokensMax: 50, uncountedTokens: 9 })).toMatch(/^20 of 50: 20 of 50 tokens/); // it was another turn's
  expect(words({ turnId: null, turnTokensMax: 50, turnUncountedTokens: 9 })).toMatch(/^50 a turn: 50 tokens for the next turn/);
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
])("typed %j is %j tokens", (typed, tokens) => expect(parseTokens(typed)).toBe(tokens));

test.each([
  ["", null],
  ["2", 2 * USD],
  ["$0.50", 500_000_000],
  ["0.1", 100_000_000],
  ["1234.567891234", 1_234_567_891_234],
  ["0.000000001", 1],
  ["1000000", 1e15],
  ["1000000.1", undefined],
  ["0", undefined],
  ["-1", undefined],
  ["1,50", undefined],
  ["1e3", undefined],
  ["0.0000000001", undefined],
])("typed %j is %j billionths of a dollar", (typed, nanoUsd) => expect(parseUsd(typed)).toBe(nanoUsd));

test("counts are brief, amounts are never nothing, and modes have their names", () => {
  expect([850, 1000, 12_400, 50_000, 123_456, 2_000_000].map(brief)).toEqual(["850", "1k", "12.4k", "50k", "123k", "2M"]);
  const amounts = [0, 1, 420_000_000, 42_300_000, 2 * USD, 1_234_560_000_000, USD - 1];
  expect(amounts.map(usd)).toEqual(["$0.00", "<$0.0001", "$0.42", "$0.0423", "$2.00", "$1,234.56", "$1.00"]);
  expect([modeLabel("agent"), modeLabel("plan")]).toEqual(["Agent", "Plan"]);
});

test("a limit that has no room is raised by half in a round number, and by what the next request needs", () => {
  const by = (name: string, unit: string, more: number): unknown => ({ name, unit, by: more });
  expect(raiseOf(null)).toBeNull();
  expect(raiseOf(detail(idle))).toBeNull();
  expect(raiseOf(detail({ ...idle, sessionTokensMax: 200 }))).toBeNull();
  expect(raiseOf(detail({ ...idle, turnId: "t1", sessionTokensMax: 50 }))).toBeNull();
  expect(raiseOf(detail({ ...idle, sessionTokensMax: 50, turnTokensMax: 40 }))).toEqual(by("sessionTokens", "tokens", 30));
  expect(raiseOf(detail({ ...idle, turnTokens: 19_990, turnTokensMax: 20_000 }))).toEqual(by("turnTokens", "tokens", 10_000));
  expect(raiseOf(detail({ ...idle, nextTokens: 8_200, turnTokensMax: 1_000 }))).toEqual(by("turnTokens", "tokens", 9_000));
  const money = { ...idle, turnTokensMax: 1_000, sessionNanoUsd: 1.8 * USD, sessionNanoUsdMax: 2 * USD, nextNanoUsd: 0.3 * USD };
  const raise = raiseOf(detail(money));
  expect(raise).toEqual(by("sessionNanoUsd", "usd", USD));
  expect(raise === null ? "" : raiseWords(raise)).toBe("Add $1.00");
  expect(raiseOf(detail({ ...money, nextNanoUsd: 0.1 * USD }))).toBeNull();
  const turn = { ...idle, turnTokensMax: 1_000, turnNanoUsd: 0.04 * USD, turnNanoUsdMax: 0.05 * USD, nextNanoUsd: 0.02 * USD };
  expect(raiseOf(detail(turn))).toEqual(by("turnNanoUsd", "usd", 0.03 * USD));
  expect(raiseOf(detail({ ...turn, limitReached: false }))).toBeNull();
  expect(raiseWords({ name: "turnTokens", unit: "tokens", by: 10_000 })).toBe("Add 10k tokens");
});

test("one limit is set and the others stay; of money nothing is told where tokens alone change", () => {
  const now = detail({ turnTokensMax: 5, turnNanoUsdMax: 7 });
  expect(limitsOf(now).map((one) => one.name)).toEqual(["turnTokens", "turnNanoUsd"]);
  expect(limitsWith(now, "sessionTokens", 9)).toEqual({ turnTokens: 5, sessionTokens: 9 });
  expect(limitsWith(now, "sessionNanoUsd", 9)).toEqual({ turnTokens: 5, sessionTokens: null, money: { turnNanoUsd: 7, sessionNanoUsd: 9 } });
  expect(limitsWith(now, "turnNanoUsd", null)).toEqual({ turnTokens: 5, sessionTokens: null, money: { turnNanoUsd: null, sessionNanoUsd: null } });
});

test.each([
  ["the daemon refuses it", { sessionUsd: 2 }, ["session/budget", "session/delete"]],
  ["the setting is no amount", { sessionUsd: -2 }, ["session/delete"]],
])("a session that can't have its limit is deleted again: %s", async (_why, settings, asked) => {
  const none = { turnTokens: 0, sessionTokens: 0, turnUsd: 0, sessionUsd: 0 };
  const calls: string[] = [];
  const refusing = {
    call: (method: string, params: unknown): Promise<never> => {
      calls.push(method);
      expect(params).toMatchObject({ sessionId: "s1" });
      return method === "session/delete" ? (Promise.resolve({}) as Promise<never>) : Promise.reject(new Error("no price is known"));
    },
  };
  await expect(beginWithin(refusing, { ...none, ...settings }, () => ({ clientRequestId: "r", sessionId: "s1" }))).rejects.toThrow(
    /no price is known|no amount/,
  );
  expect(calls).toEqual(asked);
});

test("a session begins within the limits of the settings, and not at all where one of them is no amount", () => {
  const none = { turnTokens: undefined, sessionTokens: undefined, turnUsd: undefined, sessionUsd: undefined };
  const limits = (settings: Readonly<Record<string, unknown>>): unknown => startLimits({ ...none, ...settings });
  expect(limits({})).toBeNull();
  expect(limits({ turnTokens: 0, sessionTokens: 0, turnUsd: 0, sessionUsd: 0 })).toBeNull();
  expect(limits({ sessionTokens: 1_000_000 })).toEqual({ turnTokens: null, sessionTokens: 1_000_000 });
  expect(limits({ turnTokens: 5, sessionUsd: 0.1 })).toEqual({
    turnTokens: 5,
    sessionTokens: null,
    money: { turnNanoUsd: null, sessionNanoUsd: 100_000_000 },
  });
  expect(() => limits({ sessionUsd: -2 })).toThrow("gloveport.sessionUsd is no amount of US dollars");
  expect(() => limits({ turnUsd: 1e-10 })).toThrow("gloveport.turnUsd");
  expect(() => limits({ turnTokens: "50k" })).toThrow("gloveport.turnTokens is no number of tokens");
});
