/** Looks that came one after another, as one row. */

import { expect, test } from "vitest";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { groupReads, readsWords } from "../src/common/reads.ts";
import { buildRows } from "../src/common/rows.ts";

const look = (id: string, tool: string, fields: ViewItem["fields"] = {}): ViewItem => ({
  id: `tool/${id}`,
  kind: "tool",
  fields: { tool, state: "ok", durationUs: 200_000, ...fields },
});

const keysOf = (items: readonly ViewItem[]): readonly string[] =>
  groupReads(buildRows(items), (id) => items.find((one) => one.id === id)).map((row) => row.key);

test("looks that follow one another are one row with their number and time; one alone stays as it is", () => {
  const items = [look("a", "read_file"), look("b", "read_file"), look("c", "search"), look("d", "edit_file"), look("e", "list_files")];
  expect(keysOf(items)).toEqual(["tool/a#reads3", "tool/d", "tool/e"]);
  expect(readsWords(items.slice(0, 3))).toEqual({ words: "2 files, 1 search", figure: "0.6 s" });
  expect(readsWords([look("a", "list_files", { durationUs: null }), look("b", "search"), look("c", "search")])).toEqual({
    words: "1 folder, 2 searches",
    figure: "",
  });
});

test.each([
  ["goes on", { state: "running" }],
  ["failed", { state: "failed" }],
  ["came late", { late: true }],
  ["is not known", { state: "lost" }],
  ["holds what reads like an instruction", { hints: [{ kind: "instruction_like", line: 1, excerpt: "x" }] }],
  ["left what nobody looked through", { unseen: 1 }],
  ["was kept from a place", { egress: [{ host: "a", port: 1, allowed: false }] }],
])("one that %s stands by itself", (_, fields) => {
  expect(keysOf([look("a", "read_file"), look("b", "read_file", fields), look("c", "read_file")])).toEqual(["tool/a", "tool/b", "tool/c"]);
});
