/**
 * The rows of the conversation as elements.
 *
 * Purpose: one maker for every kind of row; each reads its item when it is drawn.
 * Invariant: what the daemon's record does not hold is not drawn.
 * Must never: draw a control from data: buttons stand outside of what the model wrote.
 */

import { attachmentLabel, splitAttachments } from "../common/attach.ts";
import { raiseWords } from "../common/bounds.ts";
import type { Raise } from "../common/bounds.ts";
import type { FileRow } from "../common/panel.ts";
import { isOverBudget, isStreaming, list, turnWords, whisperWords } from "../common/rows.ts";
import type { Row } from "../common/rows.ts";
import { num, str } from "../common/toolRow.ts";
import type { Fields } from "../common/toolRow.ts";
import { capital, grouped } from "../common/words.ts";
import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { STATE_TOLD, answeredView, cardView } from "./card.ts";
import { dot } from "./chrome.ts";
import { cardRowView } from "./cardRow.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { icon } from "./icons.ts";
import type { RowMaker } from "./list.ts";
import { GrowingText, MESSAGE_CHARS_MAX } from "./markdown.ts";
import { send } from "./port.ts";
import { readsView, testsView, toolView, updateTool } from "./tool.ts";

export interface Source {
  item(id: string): ViewItem | undefined;
  /** Number of a turn from 1; null where older ones are not held. */
  turnNumber(id: string): number | null;
  /** How long a turn took and what it cost; nothing where neither is known. */
  turnFigures(id: string): string;
  /** Words of the panel itself, such as that the link came back; null for keys of items. */
  own(key: string): string | null;
  /** Proposed files of the session, as the extension pictures them. */
  readonly files: () => readonly FileRow[];
  /** What would let the session go on after this turn; null for a turn that is not the newest. */
  raise(turn: string): Raise | null;
  /** Whether another window answered this card while it waited here. */
  isElsewhere(itemId: string): boolean;
}

const ASK_CHARS_MAX = 20_000;

export class Rows implements RowMaker {
  private readonly source: Source;
  private readonly growing = new WeakMap<HTMLElement, GrowingText>();

  constructor(source: Source) {
    this.source = source;
  }

  make(row: Row): HTMLElement {
    const own = this.source.own(row.key);
    if (own !== null) {
      return whisper(own);
    }
    const item = this.source.item(row.id);
    const element = item === undefined ? h("div") : this.draw(row, item);
    return element;
  }

  update(row: Row, element: HTMLElement): boolean {
    const item = this.source.item(row.id);
    if (item === undefined) {
      return false;
    }
    if (row.kind === "say") {
      return this.updateSay(item.fields, element);
    }
    return row.kind === "tool" ? updateTool(item, element) : false;
  }

  private draw(row: Row, item: ViewItem): HTMLElement {
    switch (row.kind) {
      case "ask":
        return askView(item.fields);
      case "say":
        return this.sayView(item.fields);
      case "tool":
        return toolView(item);
      case "reads":
        return readsView(row.key, this.itemsOf(row.parts ?? []));
      case "tests":
        return testsView(item);
      case "card":
        return row.parts === undefined ? cardView(item, this.source.files) : cardRowView(this.itemsOf(row.parts), this.source.files);
      case "answered":
        return answeredView(item, this.source.isElsewhere(item.id));
      case "notice":
        return noticeView(item, this.source);
      case "recovery":
        return recoveryView(item);
      case "turn":
        return this.turnView(item);
      case "whisper":
        return item.kind === "turn" ? whisper(turnWords(item.fields).words) : whisper(whisperWords(item));
    }
  }

  private itemsOf(ids: readonly string[]): readonly ViewItem[] {
    return ids.flatMap((id) => this.source.item(id) ?? []);
  }

  private sayView(fields: Fields): HTMLElement {
    const element = h("div", { class: "say" });
    const text = new GrowingText();
    this.growing.set(element, text);
    element.append(text.element);
    this.updateSay(fields, element);
    return element;
  }

  private updateSay(fields: Fields, element: HTMLElement): boolean {
    const text = this.growing.get(element);
    if (text === undefined) {
      return false;
    }
    const whole = str(fields, "text");
    const state = str(fields, "state");
    text.show(whole);
    element.classList.toggle(
      "live",
      isStreaming(fields, (id) => this.source.item(id)),
    );
    element.querySelector(".say-end")?.remove();
    if (state === "interrupted") {
      element.append(h("div", { class: "say-end xs q" }, `The answer broke off: ${str(fields, "reason")}`));
    } else if (whole.length > MESSAGE_CHARS_MAX) {
      element.append(
        h("div", { class: "say-end xs q" }, `${grouped(whole.length - MESSAGE_CHARS_MAX)} more characters. The transcript holds them all.`),
      );
    }
    return true;
  }

  private turnView(item: ViewItem): HTMLElement {
    const number = this.source.turnNumber(item.id);
    const turnId = item.id.slice(item.id.indexOf("/") + 1);
    const goal = num(item.fields, "goalRevision");
    const trace = button("linkish", () => send({ type: "trace", turnId }), { label: "Show the trace of this turn" }, "trace");
    const parts = [
      number === null ? "Turn" : `Turn ${number}`,
      goal !== null && goal > 1 ? `goal ${goal}` : "",
      this.source.turnFigures(item.id),
    ].filter((one) => one !== "");
    const element = whisper(parts.join(" · "));
    element.firstElementChild?.append(" · ", trace);
    element.classList.add("turnhead");
    return element;
  }
}

export function whisper(words: string): HTMLElement {
  return h("div", { class: "whisper", title: words }, h("span", {}, revealed(words)));
}

function askView(fields: Fields): HTMLElement {
  const { text, attachments } = splitAttachments(str(fields, "text"));
  const shown = text.length > ASK_CHARS_MAX ? `${text.slice(0, ASK_CHARS_MAX)}…` : text;
  const chips = attachments.map((one) => {
    const open = (): void => send({ type: "openFile", path: one.path, line: one.lines?.[0] ?? null });
    return button("chip", open, { title: one.path }, icon("file"), attachmentLabel(one));
  });
  const words = h("p", { class: "words" });
  for (const [at, part] of shown.split("`").entries()) {
    words.append(at % 2 === 1 && shown.split("`").length % 2 === 1 ? h("code", {}, part) : revealed(part, "lines"));
  }
  const state = str(fields, "state");
  const how = state === "steered" ? h("div", { class: "xs q" }, `Steered: read as ${str(fields, "steeringKind")}`) : null;
  return h("div", { class: "pad" }, h("div", { class: "ask" }, words, chips.length > 0 && h("div", { class: "att" }, ...chips), how));
}

/** The turn ended at a limit: what was done stays; the newest such card can raise the limit by one step. */
function budgetView(fields: Fields, raise: () => Raise | null): HTMLElement {
  const title = str(fields, "code") === "budget.reached" ? "Budget reached" : "No price is known";
  const words = [`${capital(str(fields, "message"))}. The work so far is kept.`, ...(title === "Budget reached" ? [] : [str(fields, "hint")])];
  const limits = button("btn", () => send({ type: "verb", verb: "setBudget" }), {}, "Set limit");
  const act = h("div", { class: "act" });
  const draw = (): void => {
    const step = raise();
    const add = step !== null && title === "Budget reached" && button("btn", () => send({ type: "verb", verb: "addBudget" }), {}, raiseWords(step));
    fill(act, add, limits);
  };
  draw();
  return h(
    "div",
    { class: "pad" },
    h(
      "div",
      { class: "ap reached", role: "group", label: title, on: { [STATE_TOLD]: draw } },
      h(
        "div",
        { class: "sec first" },
        h("div", { class: "row" }, dot("paused"), h("h3", { class: "grow" }, title)),
        ...words.map((one) => h("p", { class: "sm q" }, revealed(one))),
        act,
      ),
    ),
  );
}

function noticeView(item: ViewItem, source: Source): HTMLElement {
  const { fields } = item;
  if (isOverBudget(fields)) {
    return budgetView(fields, () => source.raise(item.id));
  }
  const body = h("div", {});
  let sign = "warnt";
  if (item.kind === "turn") {
    const { words, hint, bad } = turnWords(fields);
    sign = bad ? "errc" : "warnt";
    fill(body, revealed(words), hint !== "" && h("div", { class: "q" }, revealed(hint)));
  } else if (item.kind === "apply") {
    sign = str(fields, "state") === "writing" ? "spin" : str(fields, "state") === "refused" ? "warnt" : "unknown";
    const head =
      { writing: "Writing", refused: "Nothing was written", unknown: "Outcome unknown", unsettled: "Written in part" }[str(fields, "state")] ??
      str(fields, "state");
    fill(body, head, h("div", { class: "q" }, revealed(str(fields, "message"))));
  } else if (item.kind === "freeze") {
    const head =
      str(fields, "state") === "frozen"
        ? "This session is frozen. Look at what it did before you let it work again."
        : "This session was frozen and may work again.";
    fill(
      body,
      head,
      h("div", { class: "q" }, revealed(str(fields, "words"))),
      h("div", { class: "q" }, revealed(str(fields, "evidence"))),
      str(fields, "state") === "frozen" && thawButton(),
    );
  } else {
    fill(body, "The log of this session contradicts itself.", ...list(fields, "findings").map((one) => h("div", { class: "q" }, revealed(one))));
  }
  const tone = sign === "errc" ? "bad" : sign === "spin" ? "live spin" : "warn";
  return h("div", { class: "pad" }, h("div", { class: "note", role: "group" }, icon(sign, tone), body));
}

function thawButton(): HTMLElement {
  return h(
    "div",
    { class: "act" },
    button("btn", () => send({ type: "verb", verb: "thawSession" }), {}, "Let it work again"),
  );
}

const RECOVERED: Readonly<Record<string, readonly [string, string]>> = {
  succeeded: ["check", "ok"],
  still_running: ["spin", "live spin"],
  failed: ["close", "bad"],
  unknown: ["unknown", "warn"],
};

function recoveryView(item: ViewItem): HTMLElement {
  const found = Array.isArray(item.fields["items"]) ? (item.fields["items"] as readonly Fields[]) : [];
  const lines = found.map((one) => {
    const [sign, tone] = RECOVERED[str(one, "outcome")] ?? ["info", "q"];
    const next = str(one, "next");
    return h("li", {}, icon(sign, tone), h("span", {}, revealed(str(one, "text")), next !== "" && h("span", { class: "q" }, " ", next)));
  });
  return h(
    "div",
    { class: "pad" },
    h(
      "div",
      { class: "card recovery", role: "group", label: "Picked up after a restart" },
      h("div", { class: "hd" }, icon("history"), h("h3", { class: "grow" }, "Picked up after a restart")),
      h(
        "div",
        { class: "sec" },
        lines.length === 0 && h("p", { class: "q" }, revealed(str(item.fields, "text"))),
        lines.length > 0 && h("ul", { class: "fx" }, ...lines),
      ),
    ),
  );
}
