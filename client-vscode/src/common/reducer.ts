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

/** Items stand on pages of so many by their index; the digest of the view is over the digests of its pages. */
export const PAGE_ITEMS = 128;

/**
 * The items of a view from `first` on, in order. One owner changes it; `items` and `digest` read it.
 *
 * `first` is the first item's index in the whole view: 0, or the start of a page for who holds the newest ones only.
 */
export class View {
  private readonly held = new Map<string, Held>();
  private readonly index = new Map<string, number>();
  private order: string[] = [];
  private readonly digests = new Map<string, string>();
  private readonly pages = new Map<number, string>();
  private readonly sha256: Sha256;
  first = 0;
  watermark = 0;

  constructor(sha256: Sha256) {
    this.sha256 = sha256;
  }

  get size(): number {
    return this.order.length;
  }

  /** How many items the whole view has. */
  get end(): number {
    return this.first + this.order.length;
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
      this.load([], this.watermark);
      return;
    }
    const before = this.held.get(op.item);
    if (op.op === "upsert") {
      if (before === undefined) {
        this.index.set(op.item, this.end);
        this.order.push(op.item);
      }
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
    this.pages.delete(Math.floor((this.index.get(op.item) ?? 0) / PAGE_ITEMS));
  }

  /** Begin anew from a snapshot, of the items from index `first` (the start of a page) on. */
  load(items: Iterable<ViewItem>, watermark: number, first = 0): void {
    this.held.clear();
    this.index.clear();
    this.digests.clear();
    this.pages.clear();
    this.order = [];
    this.first = first;
    for (const item of items) {
      this.index.set(item.id, this.end);
      this.order.push(item.id);
      this.held.set(item.id, { kind: item.kind, fields: { ...item.fields } });
    }
    this.watermark = watermark;
  }

  /** Take in older items, from index `first` (the start of a page) up to those that are held. */
  prepend(items: readonly ViewItem[], first: number): void {
    if (first + items.length !== this.first || items.some((item) => this.held.has(item.id))) {
      throw new ViewGapError(`${items.length} items from ${first} on do not join those from ${this.first} on`);
    }
    items.forEach((item, at) => {
      this.index.set(item.id, first + at);
      this.held.set(item.id, { kind: item.kind, fields: { ...item.fields } });
    });
    this.order = [...items.map((item) => item.id), ...this.order];
    this.first = first;
  }

  /** The held items in order. */
  items(): ViewItem[] {
    return this.order.map((id) => this.item(id));
  }

  /** An item that is held. */
  find(id: string): ViewItem | undefined {
    const held = this.held.get(id);
    return held === undefined ? undefined : { id, kind: held.kind, fields: held.fields };
  }

  private item(id: string): ViewItem {
    const { kind, fields } = this.held.get(id) as Held;
    return { id, kind, fields };
  }

  /** SHA-256 of the items from index `first` (the start of a held page; default: all) on; pages are hashed once. */
  digest(first = this.first): string {
    const parts: string[] = [];
    for (let page = first / PAGE_ITEMS; page * PAGE_ITEMS < this.end; page += 1) {
      parts.push(this.pageDigest(page));
    }
    return this.sha256(parts.join("\n"));
  }

  private pageDigest(page: number): string {
    const known = this.pages.get(page);
    if (known !== undefined) {
      return known;
    }
    const at = page * PAGE_ITEMS - this.first;
    const made = this.sha256(
      this.order
        .slice(at, at + PAGE_ITEMS)
        .map((id) => this.itemDigest(id))
        .join("\n"),
    );
    this.pages.set(page, made);
    return made;
  }

  private itemDigest(id: string): string {
    const known = this.digests.get(id) ?? this.sha256(canonicalJson(this.item(id)));
    this.digests.set(id, known);
    return known;
  }
}
