/** What is kept together, what is left and why, and what a refusal says to who pressed a button beside something older. */

import { expect, test } from "vitest";
import type { ChangeInfo, ErrorCode, FileRule, PendingHunk } from "../../protocol/typescript/wire.ts";
import { lensWords } from "../src/common/hunks.ts";
import { aloneWords, keepTogether, leftWords, parted, refusedWords, sinceShown } from "../src/common/keeping.ts";
import { RpcError } from "../src/common/rpc.ts";

const change = (path: string, runsByItself: string | null = null, rule: FileRule | null = null): ChangeInfo =>
  ({ changeId: `c-${path}`, path, digest: `d-${path}`, runsByItself, rule }) as ChangeInfo;
const rule = (verdict: FileRule["verdict"]): FileRule => ({ ruleId: `user:${verdict}`, verdict, words: `You ${verdict}` });
const refusal = (code: ErrorCode, paths: readonly string[]): RpcError => new RpcError("No", { code, hint: "Look.", paths } as never);

const ALL = [
  change("a.txt"),
  change("Makefile", "make runs it"),
  change("b.sql", null, rule("ask")),
  change("c.sql", "it runs", rule("deny")),
  change("z.txt"),
];

test("what runs by itself, or a rule speaks of, is left with why; the rest is kept as it was shown", async () => {
  const asked: string[][] = [];
  const left = await keepTogether(ALL, async (group) => void asked.push(group.map((one) => one.digest)));
  expect(asked).toEqual([["d-a.txt", "d-z.txt"]]);
  expect(left).toEqual([
    { path: "Makefile", why: "Runs by itself: make runs it." },
    { path: "b.sql", why: "The rule user:ask asks about it: You ask." },
    { path: "c.sql", why: "The rule user:deny refuses it: You deny." },
  ]);
  expect(leftWords(left)).toContain("Not kept: Makefile: Runs by itself: make runs it. b.sql: The rule");
  expect(leftWords([])).toBe("");
  expect(leftWords(Array.from({ length: 7 }, (_, at) => ({ path: `f${at}`, why: "w." })))).toContain("2 more files.");
  expect(parted(ALL.slice(1, 2)).together).toEqual([]);
  expect([aloneWords(ALL[0]!), refusedWords(ALL[0]!)]).toEqual(["", ""]);
});

test("nothing is asked where all are left, and what came to be refused since is left too", async () => {
  expect(await keepTogether(ALL.slice(1, 3), () => Promise.reject(new Error("asked")))).toHaveLength(2);
  const asked: string[][] = [];
  const left = await keepTogether(ALL, async (group) => {
    asked.push(group.map((one) => one.path));
    if (group.length > 1) {
      throw refusal("policy.denied", ["z.txt"]);
    }
  });
  expect(asked).toEqual([["a.txt", "z.txt"], ["a.txt"]]);
  expect(left.at(-1)).toEqual({ path: "z.txt", why: "No. Look." });
});

test("any other refusal ends it; one of what was not shown says to look again", async () => {
  for (const error of [refusal("change.conflict", ["a.txt"]), refusal("policy.denied", ["other"]), new Error("lost")]) {
    await expect(keepTogether(ALL, () => Promise.reject(error))).rejects.toBe(error);
    expect(sinceShown(error, ALL)).toBe(error);
  }
  const changed = refusal("change.superseded", []);
  expect(String(sinceShown(changed, ALL.slice(0, 1)))).toContain("a.txt changed since it was shown; look again");
  expect(String(sinceShown(changed, ALL))).toContain("One of 5 files changed since it was shown");
});

test("the head of a lens says why its file is kept by itself, or not", () => {
  const hunk = { oldCount: 0, newCount: 1, meets: false, runsByItself: "make runs it", rule: null } as unknown as PendingHunk;
  expect(lensWords(hunk, 1, 1)).toBe("Gloveport 1 of 1: 1 line added · Runs by itself: make runs it.");
  expect(lensWords({ ...hunk, rule: rule("deny") }, 1, 1)).toContain("· The rule user:deny refuses it: You deny.");
  expect(lensWords({ ...hunk, runsByItself: null }, 1, 1)).toBe("Gloveport 1 of 1: 1 line added");
});
