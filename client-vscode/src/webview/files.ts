/**
 * The files that are proposed.
 *
 * Purpose: draw them with what can be decided on each, and why one is kept by itself or not at all.
 * Invariant: a decision names the digests of what stands here; a button that moved, or whose file changed, is deaf at first.
 * Must never: offer to keep what a rule refuses, or say in a hover alone why a file is kept by itself.
 */

import { Deaf, LOOK_MS } from "../common/deaf.ts";
import type { FileRow, FromPanel } from "../common/panel.ts";
import { counted } from "../common/words.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { findingsView } from "./findings.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

type Decide = (action: Action) => () => void;
type Action = Extract<FromPanel, { readonly type: "files" }>["action"];

function ask(action: Action, files: readonly FileRow[]): void {
  send({ type: "files", action, files: files.map(({ changeId, digest }) => ({ changeId, digest })) });
}

export class FilesBox {
  readonly element = h("div", { class: "filesbox" });
  private readonly list = h("ul", { label: "Proposed files" });
  /** Rows as they stand, by what they show: one that shows the same goes on hearing. */
  private rows: ReadonlyMap<string, HTMLElement> = new Map();
  private open = true;
  private drawn = "";
  /** Where the head and each row stood when they were last looked at. */
  private readonly standing = new WeakMap<Element, Deaf>();
  private looked = "";

  constructor() {
    setInterval(() => this.look(), LOOK_MS);
  }

  /** Look where each stands, if anything can have moved since. */
  private look(): void {
    const { left, top, width, height } = this.element.getBoundingClientRect();
    const { scrollTop, scrollHeight } = this.element;
    const key = JSON.stringify([left, top, width, height, scrollTop, scrollHeight, this.drawn]);
    if (key !== this.looked) {
      this.looked = key;
      this.element.querySelectorAll(".hd, li").forEach((place) => this.hears(place));
    }
  }

  private hears(place: Element): boolean {
    const now = performance.now();
    const deaf = this.standing.get(place) ?? new Deaf(now);
    this.standing.set(place, deaf);
    const { left, top, width, height } = place.getBoundingClientRect();
    return deaf.hears([left, top, width, height], now);
  }

  /** What decides on these files from a place that has stood still. */
  private heard(place: Element, files: readonly FileRow[]): Decide {
    return (action) => () => {
      if (this.hears(place)) {
        ask(action, files);
      }
    };
  }

  show(files: readonly FileRow[]): void {
    const key = JSON.stringify([files, this.open]);
    if (key !== this.drawn) {
      this.drawn = key;
      this.draw(files);
    }
  }

  private draw(files: readonly FileRow[]): void {
    this.element.hidden = files.length === 0;
    const shown = this.open ? files : [];
    const rows = new Map(
      shown
        .map((file) => [JSON.stringify(file), file] as const)
        .map(([key, file]) => [key, this.rows.get(key) ?? fileView(file, (row) => this.heard(row, [file]))]),
    );
    this.rows = rows;
    const wanted = new Set<Element>(rows.values());
    [...this.list.children].filter((one) => !wanted.has(one)).forEach((one) => one.remove());
    [...wanted].forEach((row, at) => {
      if (this.list.children[at] !== row) {
        this.list.insertBefore(row, this.list.children[at] ?? null);
      }
    });
    const box = this.element.querySelector(".files");
    if (files.length === 0) {
      fill(this.element);
    } else if (box === null) {
      fill(this.element, h("div", { class: "files" }, this.head(files), this.open && this.list));
    } else {
      replace(box.firstElementChild, this.head(files));
      if (!this.open) {
        this.list.remove();
      } else if (this.list.parentNode !== box) {
        box.append(this.list);
      }
    }
  }

  private head(files: readonly FileRow[]): HTMLElement {
    const sum = (pick: (row: FileRow) => number): number => files.reduce((total, row) => total + pick(row), 0);
    const toggle = (): void => {
      this.open = !this.open;
      this.show(files);
    };
    const head = h("div", { class: "hd" });
    const decide = this.heard(head, files);
    fill(
      head,
      button(
        "pick",
        toggle,
        { attrs: { "aria-expanded": String(this.open) } },
        icon(this.open ? "cd" : "cr", "s q"),
        h("span", { class: "nw m" }, counted(files.length, "file")),
      ),
      h(
        "span",
        { class: "num grow nw wide" },
        counts(
          sum((one) => one.added),
          sum((one) => one.removed),
        ),
      ),
      button("btn", decide("keepAll"), {}, "Keep all"),
      button("btn", decide("undo"), {}, "Undo all"),
      button("btn", () => ask("review", files), {}, "Review"),
    );
    return head;
  }
}

/** Put a head in the place of another; the focus stays on the button it was on. */
function replace(old: Element | null, head: Element): void {
  const at = [...(old?.querySelectorAll("button") ?? [])].findIndex((one) => one === document.activeElement);
  old?.replaceWith(head);
  head.querySelectorAll("button")[at]?.focus();
}

function fileView(file: FileRow, heard: (row: Element) => Decide): HTMLElement {
  const why = file.refused || file.alone;
  const warns = why !== "" || file.findings.length > 0;
  const row = h("li", { title: file.path });
  const decide = heard(row);
  const review = (): void => ask("review", [file]);
  fill(
    row,
    h(
      "div",
      { class: "frow" },
      button(
        "fname",
        review,
        { title: file.path },
        icon(warns ? "warnt" : "file", warns ? "s warn" : "s q"),
        h("span", { class: "vh" }, "Review "),
        h("span", { class: "nw" }, revealed(file.name)),
        " ",
        h("span", { class: "q xs ell grow" }, revealed([file.folder, kindWords(file.kind)].filter((one) => one !== "").join(" · "))),
      ),
      h("span", { class: "num xs stat" }, counts(file.added, file.removed)),
      h(
        "span",
        { class: "acts" },
        file.refused === "" && button("ib", decide("keep"), { label: `Keep ${file.name}` }, icon("check", "s")),
        button("ib", decide("undo"), { label: `Undo ${file.name}` }, icon("undo", "s")),
        button("ib", review, { label: `Compare ${file.name}` }, icon("diff", "s")),
      ),
    ),
    why !== "" && h("p", { class: "why" }, revealed(why), file.refused === "" && " Keep all leaves it; its own button keeps it."),
    findingsView(file.findings, `Found in ${file.name}`, true),
  );
  return row;
}

function kindWords(kind: string): string {
  return kind === "modify" ? "" : kind === "create" ? "new" : kind;
}

function counts(added: number, removed: number): HTMLElement {
  return h(
    "span",
    {},
    added > 0 && h("span", { class: "add" }, `+${added}`),
    added > 0 && removed > 0 && " ",
    removed > 0 && h("span", { class: "del" }, `−${removed}`),
  );
}
