// Reads one vector per line, prints one line of JSON per vector: {items, watermark, digest}, or {gap: true}.
// A base with "first" is a part of a view; "older" ({items, first}) is taken in before it at the end.

import { createInterface } from "node:readline";
import { loadReducer, sha256 } from "./reducer.mjs";

const { View, ViewGapError } = await loadReducer();

function reduce({ base, ops, older }) {
  const view = new View(sha256);
  if (base !== null) {
    view.load(base.items, base.watermark, base.first ?? 0);
  }
  try {
    ops.forEach((batch) => view.apply(batch.seq, batch.ops));
    if (older !== undefined) {
      view.prepend(older.items, older.first);
    }
  } catch (error) {
    if (error instanceof ViewGapError) {
      return { gap: true };
    }
    throw error;
  }
  return { items: view.items(), watermark: view.watermark, digest: view.digest() };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(reduce(JSON.parse(line))));
}
