/**
 * The conversation's list: only what is near the window is in the page.
 *
 * Purpose: ten thousand rows at the cost of a screenful, whatever their heights.
 * Invariant: rows in the page are a run of the list in its order; what the reader looks at stays where it is, and who
 * looks at the end goes with it.
 * Must never: move under the pointer because something above changed, or measure more than what is in the page.
 */

import type { Row } from "../common/rows.ts";
import { h } from "./dom.ts";

export interface RowMaker {
  make(row: Row): HTMLElement;
  /** Bring an element up to date; false when it must be made anew. */
  update(row: Row, element: HTMLElement): boolean;
}

/** Pixels above and below the window in which rows are kept in the page. */
const OVERSCAN_PX = 600;
/** Who is within this of the end follows it. */
const PIN_PX = 40;
/** How much of the window a page key goes on: what stood at the edge is seen again. */
const PAGE_PART = 0.9;
const GUESS_PX: Readonly<Record<Row["kind"], number>> = {
  ask: 64,
  say: 72,
  tool: 24,
  reads: 24,
  tests: 60,
  card: 420,
  answered: 34,
  whisper: 24,
  notice: 60,
  recovery: 140,
  turn: 26,
};

export class VirtualList {
  readonly element: HTMLElement;
  private readonly inner = h("div", { class: "rows" });
  private readonly maker: RowMaker;
  private readonly onTop: () => void;
  private rows: readonly Row[] = [];
  private index = new Map<string, number>();
  private offsets: number[] = [0];
  private valid = 0;
  private readonly heights = new Map<string, number>();
  private readonly mounted = new Map<string, HTMLElement>();
  private readonly dirty = new Set<string>();
  private pinned = true;

  constructor(maker: RowMaker, onTop: () => void) {
    this.maker = maker;
    this.onTop = onTop;
    this.element = h("div", { class: "conv", role: "log", label: "Conversation", tabindex: 0, attrs: { "aria-live": "off" } }, this.inner);
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("toggle", () => this.measureSoon(), true);
    new ResizeObserver(() => this.flush()).observe(this.element);
  }

  get atEnd(): boolean {
    return this.pinned;
  }

  /** Another list; rows whose keys stay keep their elements. */
  setRows(rows: readonly Row[]): void {
    const anchor = this.anchor();
    this.rows = rows;
    this.index = new Map(rows.map((row, at) => [row.key, at]));
    this.valid = 0;
    for (const [key, element] of this.mounted) {
      if (!this.index.has(key)) {
        element.remove();
        this.mounted.delete(key);
        this.heights.delete(key);
      }
    }
    this.render(anchor);
  }

  clear(): void {
    this.pinned = true;
    this.heights.clear();
    this.setRows([]);
  }

  /** What an item's row shows has changed; it is drawn anew with the next `flush`. */
  touch(key: string): void {
    this.dirty.add(key);
  }

  /** Draw what was touched. Call it at most once in a frame. */
  flush(): void {
    this.render(this.anchor());
  }

  toEnd(): void {
    this.pinned = true;
    this.flush();
  }

  /** Bring a row into view; its element, null when there is none. */
  reveal(key: string): HTMLElement | null {
    const at = this.index.get(key);
    if (at === undefined) {
      return null;
    }
    this.pinned = at >= this.rows.length - 1;
    this.element.scrollTop = this.offset(at) - 20;
    this.render(null);
    const element = this.mounted.get(key) ?? null;
    element?.scrollIntoView({ block: "nearest" });
    return element;
  }

  private measureSoon(): void {
    requestAnimationFrame(() => this.flush());
  }

  private scrolled(): void {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const end = scrollHeight - clientHeight;
    const wanted = this.endTop(end);
    this.pinned = wanted < end ? Math.abs(scrollTop - wanted) < 1 : scrollTop >= end - PIN_PX;
    this.render(null);
    if (scrollTop < OVERSCAN_PX) {
      this.onTop();
    }
  }

  private height(row: Row): number {
    return this.heights.get(row.key) ?? GUESS_PX[row.kind];
  }

  private offset(at: number): number {
    while (this.valid < at) {
      const row = this.rows[this.valid];
      this.offsets[this.valid + 1] = (this.offsets[this.valid] ?? 0) + (row === undefined ? 0 : this.height(row));
      this.valid += 1;
    }
    return this.offsets[at] ?? 0;
  }

  /** The first row of which a part lies below `top`. */
  private rowAt(top: number): number {
    let [low, high] = [0, this.rows.length];
    this.offset(high);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offset(middle + 1) <= top) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private anchor(): { readonly key: string; readonly shift: number } | null {
    if (this.pinned) {
      return null;
    }
    const at = this.rowAt(this.element.scrollTop);
    const row = this.rows[at];
    return row === undefined ? null : { key: row.key, shift: this.element.scrollTop - this.offset(at) };
  }

  private render(anchor: { readonly key: string; readonly shift: number } | null): void {
    const view = this.element.clientHeight;
    for (let pass = 0; pass < 3; pass += 1) {
      const total = this.offset(this.rows.length);
      const kept = anchor === null ? undefined : this.index.get(anchor.key);
      const top = this.pinned
        ? this.endTop(total - view)
        : kept === undefined || anchor === null
          ? this.element.scrollTop
          : this.offset(kept) + anchor.shift;
      const begin = this.rowAt(Math.max(0, top - OVERSCAN_PX));
      const end = Math.min(this.rows.length, this.rowAt(top + view + OVERSCAN_PX) + 1);
      this.mount(begin, end);
      if (!this.measure(begin, end)) {
        break;
      }
    }
    const kept = anchor === null ? undefined : this.index.get(anchor.key);
    if (this.pinned) {
      this.element.scrollTop = this.endTop(this.element.scrollHeight - view);
    } else if (kept !== undefined && anchor !== null) {
      const wanted = this.offset(kept) + anchor.shift;
      if (Math.abs(wanted - this.element.scrollTop) > 0.5) {
        this.element.scrollTop = wanted;
      }
    }
  }

  /** Where who follows the end looks: at the end, or at the beginning of a card that waits there and is longer than the window. */
  private endTop(end: number): number {
    const last = this.rows.length - 1;
    const row = this.rows[last];
    return Math.max(0, row?.kind === "card" ? Math.min(end, this.offset(last)) : end);
  }

  private mount(begin: number, end: number): void {
    const wanted = new Set<string>();
    for (let at = begin; at < end; at += 1) {
      wanted.add((this.rows[at] as Row).key);
    }
    for (const [key, element] of this.mounted) {
      if (!wanted.has(key)) {
        if (element.contains(document.activeElement)) {
          this.element.focus({ preventScroll: true }); // who scrolled on with a wheel goes on from here, not from the page's top
        }
        element.remove();
        this.mounted.delete(key);
      }
    }
    let place: ChildNode | null = this.inner.firstChild;
    for (let at = begin; at < end; at += 1) {
      const row = this.rows[at] as Row;
      const element = this.elementOf(row);
      if (!element.hasAttribute("role")) {
        element.setAttribute("role", "article"); // a place in a set is known of few roles
      }
      element.setAttribute("aria-posinset", String(at + 1));
      element.setAttribute("aria-setsize", String(this.rows.length));
      if (place !== null && place.parentNode !== this.inner) {
        place = element; // it was made anew in the place of the old one
      }
      if (element === place) {
        place = place.nextSibling;
      } else {
        this.inner.insertBefore(element, place);
      }
    }
    this.inner.style.paddingTop = `${this.offset(begin)}px`;
    this.inner.style.paddingBottom = `${this.offset(this.rows.length) - this.offset(end)}px`;
  }

  private elementOf(row: Row): HTMLElement {
    const held = this.mounted.get(row.key);
    if (held !== undefined) {
      if (!this.dirty.delete(row.key) || this.maker.update(row, held)) {
        return held;
      }
      const anew = this.wrap(row);
      const hadFocus = held.contains(document.activeElement);
      held.replaceWith(anew);
      if (hadFocus) {
        anew.focus({ preventScroll: true }); // the row, not the control in it: nothing is pressed that was not there
      }
      return anew;
    }
    this.dirty.delete(row.key);
    return this.wrap(row);
  }

  private wrap(row: Row): HTMLElement {
    const element = this.maker.make(row);
    element.classList.add("item");
    element.dataset["kind"] = row.kind;
    element.dataset["key"] = row.key;
    element.tabIndex = -1;
    this.mounted.set(row.key, element);
    return element;
  }

  /** Take in the heights of what is in the page; whether one differed. */
  private measure(begin: number, end: number): boolean {
    let first = this.rows.length;
    for (let at = end - 1; at >= begin; at -= 1) {
      const row = this.rows[at] as Row;
      const height = this.mounted.get(row.key)?.getBoundingClientRect().height ?? 0;
      if (Math.abs(height - this.height(row)) > 0.25 || !this.heights.has(row.key)) {
        if (Math.abs(height - this.height(row)) > 0.25) {
          first = at;
        }
        this.heights.set(row.key, height);
      }
    }
    this.valid = Math.min(this.valid, first);
    return first < this.rows.length;
  }

  /** The row a window further on from one, one row at least and as far as there are any; from what is seen where none has the focus. */
  private pageFrom(at: number, way: 1 | -1): number {
    const { scrollTop, clientHeight } = this.element;
    const begin = at < 0 ? this.rowAt(scrollTop) : at;
    const there = this.rowAt(Math.max(0, this.offset(begin) + way * clientHeight * PAGE_PART));
    const moved = way > 0 ? Math.max(begin + 1, there) : Math.min(begin - 1, there);
    return Math.max(0, Math.min(this.rows.length - 1, moved));
  }

  private key(event: KeyboardEvent): void {
    const from = event.target as HTMLElement;
    const row = from.closest<HTMLElement>(".item");
    if (from !== this.element && from !== row && from.tagName !== "SUMMARY") {
      return;
    }
    const at = row === null ? -1 : (this.index.get(row.dataset["key"] ?? "") ?? -1);
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at < 0 ? this.rows.length - 1 : at - 1,
      Home: 0,
      End: this.rows.length - 1,
      PageDown: this.pageFrom(at, 1),
      PageUp: this.pageFrom(at, -1),
    };
    const target = moves[event.key];
    const details = row?.querySelector("details");
    if (target !== undefined && this.rows[target] !== undefined) {
      event.preventDefault();
      this.reveal(this.rows[target].key)?.focus({ preventScroll: true });
    } else if (details !== null && details !== undefined && ["ArrowRight", "ArrowLeft", "Enter"].includes(event.key) && from === row) {
      event.preventDefault();
      details.open = event.key === "ArrowRight" || (event.key === "Enter" && !details.open);
    }
  }
}
