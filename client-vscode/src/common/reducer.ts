/**
 * The reducer of the view, equal to the Python one beside the wire dialect.
 *
 * Purpose: apply batches of operations to an ordered list of items, and the digest of the result.
 * Invariant: operations with seq at or below the watermark change nothing; equal views have equal digests.
 * Must never: guess (an append that leaves a gap is an error that calls for a resync) or use an ambient API.
 */

import type { ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";

/** Lower-case hexadecimal SHA-256 of the UTF-8 form of a text; the platform gives it. */
export type Sha256 = (text: string) => string;

type Fields = Readonly<Record<string, unknown>>;

interface Held {
  readonly kind: string;
  readonly fields: Fields;
}

export type ViewOp =
  | { readonly op: "reset" }
  | { readonly op: "upsert"; readonly item: string; readonly kind: string; readonly fields: Fields }
  | { readonly op: "append"; readonly item: string; readonly field: string; readonly offset: number; readonly text: string };

/** An append began beyond the end of what is there: events are missing; subscribe anew. */
export class ViewGapError extends Error {
  override readonly name = "ViewGapError";
}

/** The one encoding that is hashed: keys sorted by code point, no spaces, integers only. */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value === "string") {
    return quote(value);
  }
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) {
      throw new RangeError(`only integers are hashed, not ${String(value)}`);
    }
    return String(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map(canonicalJson).join(",")}]`;
  }
  if (typeof value === "object") {
    const entries = Object.entries(value).sort(([a], [b]) => compareCodePoints(a, b));
    return `{${entries.map(([key, inner]) => `${quote(key)}:${canonicalJson(inner)}`).join(",")}}`;
  }
  throw new TypeError(`not JSON: ${typeof value}`);
}

function quote(text: string): string {
  if (LONE_SURROGATE.test(text)) {
    throw new RangeError("a lone surrogate has no UTF-8 form");
  }
  return JSON.stringify(text);
}

const LONE_SURROGATE = /[\uD800-\uDFFF]/u;

/** Order by code point; the language's own order is by UTF-16 unit, which differs beyond U+FFFF. */
export function compareCodePoints(a: string, b: string): number {
  let at = 0;
  while (at < a.length && at < b.length && a.charCodeAt(at) === b.charCodeAt(at)) {
    at += 1;
  }
  if (at === a.length || at === b.length) {
    return a.length - b.length;
  }
  const left = a.charCodeAt(at);
  const right = b.charCodeAt(at);
  const leftHigh = isSurrogate(left);
  return leftHigh === isSurrogate(right) ? left - right : leftHigh ? 1 : -1;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** `current` with `text` written at `offset` UTF-16 units; what is already there is not doubled. */
export function joinText(current: string, offset: number, text: string): string {
  if (offset === current.length) {
    return current + text;
  }
  const splits = offset > 0 && /[\uD800-\uDBFF]/.test(current.charAt(offset - 1)) && /[\uDC00-\uDFFF]/.test(current.charAt(offset));
  if (offset < 0 || offset > current.length || splits) {
    throw new ViewGapError(`append at ${offset} joins no place of the ${current.length} units that are there`);
  }
  return current.length - offset <= text.length ? current.slice(0, offset) + text : current;
}

/** An ordered list of items. One owner changes it; `items` and `digest` read it. */
export class View {
  private readonly held = new Map<string, Held>();
  private readonly digests = new Map<string, string>();
  private readonly sha256: Sha256;
  watermark = 0;

  constructor(sha256: Sha256) {
    this.sha256 = sha256;
  }

  get size(): number {
    return this.held.size;
  }

  /** Apply one event. False when it was applied before; throws ViewGapError when an append does not join. */
  applyEvent(event: Pick<WireEvent, "seq" | "ops">): boolean {
    return this.apply(event.seq, event.ops as unknown as readonly ViewOp[]);
  }

  apply(seq: number, ops: Iterable<ViewOp>): boolean {
    if (seq <= this.watermark) {
      return false;
    }
    for (const op of ops) {
      this.applyOne(op);
    }
    this.watermark = seq;
    return true;
  }

  private applyOne(op: ViewOp): void {
    if (op.op === "reset") {
      this.held.clear();
      this.digests.clear();
      return;
    }
    const before = this.held.get(op.item);
    if (op.op === "upsert") {
      this.held.set(op.item, { kind: op.kind, fields: { ...before?.fields, ...op.fields } });
    } else {
      const current = before !== undefined && Object.hasOwn(before.fields, op.field) ? before.fields[op.field] : "";
      if (before === undefined || before.kind === "" || typeof current !== "string") {
        throw new ViewGapError(`append to ${op.field} of ${op.item}, which is not a text that is there`);
      }
      const joined = joinText(current, op.offset, op.text);
      this.held.set(op.item, { kind: before.kind, fields: { ...before.fields, [op.field]: joined } });
    }
    this.digests.delete(op.item);
  }

  /** Begin anew from a snapshot. */
  load(items: Iterable<ViewItem>, watermark: number): void {
    this.held.clear();
    this.digests.clear();
    for (const item of items) {
      this.held.set(item.id, { kind: item.kind, fields: { ...item.fields } });
    }
    this.watermark = watermark;
  }

  /** The items in order. */
  items(): ViewItem[] {
    return [...this.held].map(([id, { kind, fields }]) => ({ id, kind, fields }));
  }

  /** SHA-256 of the whole view; unchanged items are not hashed again. */
  digest(): string {
    const parts: string[] = [];
    for (const [id, { kind, fields }] of this.held) {
      const known = this.digests.get(id) ?? this.sha256(canonicalJson({ id, kind, fields }));
      this.digests.set(id, known);
      parts.push(known);
    }
    return this.sha256(parts.join("\n"));
  }
}
