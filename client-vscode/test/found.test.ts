/** What a search of sessions found, as rows of a list. */

import { expect, test } from "vitest";
import type { SessionSearchResult } from "../../protocol/typescript/wire.ts";
import { foundIn } from "../src/common/found.ts";

const answer = (updatedAt: number, hits: number, complete = true): SessionSearchResult => ({
  looked: 3,
  complete,
  found: [
    {
      session: {
        sessionId: `s${updatedAt}`,
        workspaceId: "",
        root: "/w/shop",
        title: "",
        phase: "idle",
        modelLabel: "",
        sandbox: "",
        trustLevel: "",
        updatedAt,
      },
      titleFits: hits === 0,
      messages: hits,
      hits: Array.from({ length: hits }, (_, at) => ({ itemId: `message/${at}`, at, who: "you" as const, words: `w${at}` })),
    },
  ],
});

test("the folders of a window are one list, newest first; one that fits by its title alone stands in the list already", () => {
  const found = foundIn("w", [answer(1, 1), answer(3, 0), answer(2, 2)], (id) => (id === "s1" ? "mend the till" : ""));
  expect(found.rows.map((row) => [row.session.id, row.itemId])).toEqual([
    ["s2", "message/0"],
    ["s2", "message/1"],
    ["s1", "message/0"],
  ]);
  expect(found.rows[0]?.session.title).toBe("shop");
  expect(found.rows[2]?.session.title).toBe("mend the till");
  expect(found.note).toBe("");
});

test("what was not looked at, or is not shown, is told", () => {
  expect(foundIn("w", [answer(1, 1, false)], () => "").note).toContain("newest 3 sessions");
  expect(foundIn("w", [answer(1, 100)], () => "").rows).toHaveLength(40);
  expect(foundIn("w", [answer(1, 100)], () => "").note).not.toBe("");
});
