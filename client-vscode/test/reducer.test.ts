/** The reducer against the vectors that the Python reducer is held to, and what vectors can't say. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { View, ViewGapError, canonicalJson, compareCodePoints, joinText } from "../src/common/reducer.ts";
import type { ViewOp } from "../src/common/reducer.ts";
import { sha256 } from "../src/node/digest.ts";

interface Picture {
  readonly items: readonly ViewItem[];
  readonly watermark: number;
}

interface Vector {
  readonly name: string;
  readonly base: Picture | null;
  readonly ops: readonly { readonly seq: number; readonly ops: readonly ViewOp[] }[];
  /** Null: a batch leaves a gap. */
  readonly expected: Picture | null;
  readonly digest: string | null;
}

const FOLDER = join(process.cwd(), "..", "tests", "golden", "view_vectors");
const NAMES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

function begin(vector: Vector): View {
  const view = new View(sha256);
  if (vector.base !== null) {
    view.load(vector.base.items, vector.base.watermark);
  }
  return view;
}

function run(view: View, vector: Vector): void {
  for (const batch of vector.ops) {
    view.apply(batch.seq, batch.ops);
  }
}

test("there are vectors", () => assert.ok(NAMES.length > 5));

for (const name of NAMES) {
  const vector = JSON.parse(readFileSync(join(FOLDER, name), "utf8")) as Vector;
  test(`vector ${name}`, () => {
    const view = begin(vector);
    if (vector.expected === null) {
      assert.throws(() => run(view, vector), ViewGapError);
      return;
    }
    for (const round of ["first", "again"]) {
      run(view, vector);
      assert.deepEqual(view.items(), vector.expected.items, round);
      assert.equal(view.watermark, vector.expected.watermark, round);
      assert.equal(view.digest(), vector.digest, round);
    }
  });
}

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
