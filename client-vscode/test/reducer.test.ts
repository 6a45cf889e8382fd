/** The reducer against the vectors that the Python reducer is held to, and what vectors can't say. */

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { View, ViewGapError, canonicalJson, compareCodePoints, joinText } from "../src/common/reducer.ts";
import type { ViewOp } from "../src/common/reducer.ts";
import { sha256 } from "../src/node/digest.ts";

interface Picture {
  readonly items: readonly ViewItem[];
  readonly watermark: number;
}

/** Whole events with their seq; `expected` null: one of them leaves a gap. */
interface Batches {
  readonly base: Picture | null;
  readonly ops: readonly { readonly seq: number; readonly ops: readonly ViewOp[] }[];
  readonly expected: Picture | null;
  readonly digest: string | null;
}

/** Single operations on a list of items. */
interface Vector {
  readonly base: readonly ViewItem[] | null;
  readonly ops: readonly ViewOp[];
  readonly expected: readonly ViewItem[];
  readonly digest: string;
}

const GOLDEN = join(process.cwd(), "..", "tests", "golden");

function* readFolder<T>(folder: string): Generator<[string, T]> {
  const path = join(GOLDEN, folder);
  for (const name of existsSync(path) ? readdirSync(path).filter((entry) => entry.endsWith(".json")) : []) {
    yield [`${folder}/${name}`, JSON.parse(readFileSync(join(path, name), "utf8")) as T];
  }
}

function begin(items: readonly ViewItem[] | null, watermark: number): View {
  const view = new View(sha256);
  view.load(items ?? [], watermark);
  return view;
}

let vectors = 0;

for (const [name, { base, ops, expected, digest }] of readFolder<Batches>("view_batches")) {
  vectors += 1;
  test(name, () => {
    const view = begin(base?.items ?? null, base?.watermark ?? 0);
    const run = (): void => ops.forEach((batch) => view.apply(batch.seq, batch.ops));
    if (expected === null) {
      assert.throws(run, ViewGapError);
      return;
    }
    for (const round of ["first", "again"]) {
      run();
      assert.deepEqual(view.items(), expected.items, round);
      assert.equal(view.watermark, expected.watermark, round);
      assert.equal(view.digest(), digest, round);
    }
  });
}

for (const [name, { base, ops, expected, digest }] of readFolder<Vector>("view_vectors")) {
  vectors += 1;
  test(name, () => {
    const [stepwise, atOnce] = [begin(base, 0), begin(base, 0)];
    ops.forEach((op, index) => stepwise.apply(index + 1, [op]));
    atOnce.apply(1, ops);
    for (const view of [stepwise, atOnce]) {
      assert.deepEqual(view.items(), expected);
      assert.equal(view.digest(), digest);
    }
  });
}

for (const [name, { base, ops }] of readFolder<Vector>("view_vectors_refused")) {
  vectors += 1;
  test(name, () => {
    const view = begin(base, 0);
    ops.slice(0, -1).forEach((op, index) => view.apply(index + 1, [op]));
    assert.throws(() => view.apply(ops.length, ops.slice(-1)), ViewGapError);
  });
}

test("there are vectors", () => assert.ok(vectors > 10));

test("a digest kept per item equals a fresh one", () => {
  const view = new View(sha256);
  view.apply(1, [{ op: "upsert", item: "a", kind: "k", fields: { text: "" } }]);
  view.digest();
  view.apply(2, [{ op: "append", item: "a", field: "text", offset: 0, text: "x" }]);
  const fresh = new View(sha256);
  fresh.load(view.items(), 2);
  assert.equal(view.digest(), fresh.digest());
});

test("keys are ordered by code point, not by UTF-16 unit", () => {
  assert.ok(compareCodePoints("\uFF5E", "𝒳") < 0);
  assert.equal(canonicalJson({ "𝒳": 1, "\uFF5E": 2, a: [true, null] }), '{"a":[true,null],"\uFF5E":2,"𝒳":1}');
});

test("what has no exact form is refused", () => {
  assert.throws(() => canonicalJson(1.5), RangeError);
  assert.throws(() => canonicalJson("\uD835"), RangeError);
});

test("an append inside a code point is a gap", () => {
  assert.throws(() => joinText("𝒳", 1, "y"), ViewGapError);
  assert.throws(() => joinText("a", -1, "y"), ViewGapError);
});
