/**
 * The chat panel.
 *
 * Purpose: hold the reduced view of one session, and draw what changed once a frame.
 * Invariant: whatever is lost here, `ready` brings back from the extension.
 * Must never: fetch, keep a record of its own, or show a view with a hole.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { Elsewhere } from "../common/answered.ts";
import type { PanelState, ToPanel } from "../common/panel.ts";
import { View, ViewGapError } from "../common/reducer.ts";
import type { ViewOp } from "../common/reducer.ts";
import { groupReads } from "../common/reads.ts";
import { buildRows, isStreaming } from "../common/rows.ts";
import type { Row } from "../common/rows.ts";
import { num, str } from "../common/toolRow.ts";
import { turnFigures } from "../common/turnFacts.ts";
import type { TurnFacts } from "../common/turnFacts.ts";
import { tellState } from "./card.ts";
import { Chrome } from "./chrome.ts";
import { watchColours } from "./colours.ts";
import { Composer } from "./composer.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { icon } from "./icons.ts";
import { VirtualList } from "./list.ts";
import { send } from "./port.ts";
import { Rows } from "./rows.ts";

/** The panel never compares digests; the extension does. */
const view = new View(() => "");
const elsewhere = new Elsewhere();
const OWN_WORDS_MAX = 50;
const TOLD_MS = 8_000;
/** After so many faults of its own the panel does not begin anew any more. */
const FAULTS_MAX = 3;

let sessionId = "";
let items = new Map<string, ViewItem>();
let turns = new Map<string, number>();
let own: { readonly key: string; readonly after: string | undefined; readonly words: string }[] = [];
/** Under which row each card that waits stands. */
let cardKeys = new Map<string, string>();
let restructure = true;
let frame = 0;
let asking = false;
let faults = 0;
let lastSpoken = "";
let state: PanelState | null = null;

const chrome = new Chrome();
const composer = new Composer();
const polite = h("div", { class: "vh", role: "status", attrs: { "aria-live": "polite" } });
const urgent = h("div", { class: "vh", role: "alert", attrs: { "aria-live": "assertive" } });
const told = h("div", { class: "told", role: "status" });
const empty = h("div", { class: "empty" });
const more = button("jump", () => list.toEnd(), { label: "Go to the newest" }, icon("down", "s"));
const list = new VirtualList(
  new Rows({
    item: (id) => items.get(id),
    turnNumber: (id) => (view.first === 0 ? (turns.get(id) ?? null) : null),
    turnFigures: (id) => turnFigures(state?.session?.turns[id.slice(id.indexOf("/") + 1)]),
    own: (key) => own.find((one) => one.key === key)?.words ?? null,
    files: () => state?.session?.files ?? [],
    isElsewhere: (id) => elsewhere.has(id),
    raise: (turn) => ([...turns.keys()].at(-1) === turn ? (state?.session?.raise ?? null) : null),
  }),
  () => {
    if (view.first > 0 && !asking) {
      asking = true;
      send({ type: "older" });
    }
  },
);

function schedule(): void {
  if (frame === 0) {
    frame = requestAnimationFrame(paint);
  }
}

function rebuild(): void {
  const all = view.items();
  items = new Map(all.map((item) => [item.id, item]));
  turns = new Map(all.filter((item) => item.kind === "turn").map((item, at) => [item.id, at + 1]));
  const said = buildRows(all).filter((row) => row.kind !== "say" || !isEmptyAnswer(row));
  const rows = [...groupReads(said, (id) => items.get(id))];
  for (const one of own) {
    const at = one.after === undefined ? -1 : rows.findLastIndex((row) => row.id === one.after || row.parts?.includes(one.after ?? "") === true);
    rows.splice(at < 0 ? rows.length : at + 1, 0, { key: one.key, kind: "whisper", id: one.key });
  }
  cardKeys = new Map(rows.filter((row) => row.kind === "card").flatMap((row) => (row.parts ?? [row.id]).map((id) => [id, row.key])));
  list.setRows(rows);
  chrome.showPlan(items.get("plan")?.fields ?? null);
}

function isEmptyAnswer(row: Row): boolean {
  const fields = items.get(row.id)?.fields ?? {};
  return str(fields, "text") === "" && !isStreaming(fields, (id) => items.get(id));
}

function paint(): void {
  frame = 0;
  if (restructure) {
    restructure = false;
    rebuild();
  }
  list.flush();
  more.hidden = list.atEnd || view.size === 0;
  empty.hidden = view.size > 0;
  const seq = view.watermark;
  requestAnimationFrame(() => send({ type: "painted", seq, at: Date.now() }));
}

function apply(events: readonly { readonly seq: number; readonly ops: readonly Readonly<Record<string, unknown>>[] }[]): void {
  try {
    for (const event of events) {
      const ops = event.ops as unknown as readonly ViewOp[];
      const waited = ops.flatMap((op) => (op.op === "upsert" && op.kind === "approval" ? [[op, view.find(op.item)?.fields] as const] : []));
      if (!view.apply(event.seq, ops)) {
        continue;
      }
      waited.forEach(([op, before]) => elsewhere.sees(op.item, before, op.fields));
      for (const op of ops) {
        if (op.op !== "append") {
          restructure = true;
        }
        if (op.op === "reset") {
          continue;
        }
        const item = view.find(op.item);
        if (item !== undefined) {
          items.set(op.item, item); // at once: a scroll may draw the row before the next frame
        }
        list.touch(op.item);
        if (op.op === "upsert") {
          list.touch(`${op.item}#end`);
          speak(op.item, op.kind, op.fields);
        }
      }
    }
  } catch (error) {
    if (!(error instanceof ViewGapError)) {
      throw error;
    }
    send({ type: "broken", words: error.message });
  }
  schedule();
}

/** One polite line a reply, an assertive one only for a card that waits. */
function speak(id: string, kind: string, fields: Readonly<Record<string, unknown>>): void {
  if (kind === "approval" && fields["state"] === "pending") {
    urgent.textContent = "Gloveport waits for your answer.";
  } else if (kind === "tests") {
    lastSpoken = `Tests: ${num(fields, "passed") ?? 0} passed, ${num(fields, "failed") ?? 0} failed. `;
  } else if (kind === "turn" && ["completed", "failed", "cancelled"].includes(String(fields["state"]))) {
    const files = state?.session?.files.length ?? 0;
    polite.textContent = `${lastSpoken}Turn ${String(fields["state"])}. ${files} files proposed. ${id.slice(-4)}`.replace(/ [0-9a-f]{4}$/, "");
    lastSpoken = "";
  }
}

function load(message: Extract<ToPanel, { readonly type: "load" }>): void {
  if (message.sessionId !== sessionId) {
    own = [];
    list.clear();
  }
  sessionId = message.sessionId;
  asking = false;
  view.load(message.items, message.seq, message.first);
  for (const item of message.items) {
    list.touch(item.id);
    list.touch(`${item.id}#end`);
  }
  restructure = true;
  schedule();
}

function whisperOwn(words: string): void {
  own = [...own.slice(-OWN_WORDS_MAX), { key: `own/${own.length}/${words}`, after: view.items().at(-1)?.id, words }];
  restructure = true;
  schedule();
}

let toldTimer = 0;

function tell(words: string, bad: boolean): void {
  fill(
    told,
    icon(bad ? "errc" : "info", bad ? "bad" : "q"),
    h("span", { class: "grow" }, revealed(words)),
    button("ib", () => fill(told), { label: "Close" }, icon("close", "s")),
  );
  told.classList.toggle("on", true);
  clearTimeout(toldTimer);
  if (!bad) {
    toldTimer = window.setTimeout(() => fill(told), TOLD_MS);
  }
}

/** A failure is told until something succeeds. */
function untell(): void {
  if (told.querySelector(".bad") !== null) {
    fill(told);
  }
}

function takeSent(ok: boolean, text: string): void {
  composer.sent(ok, text);
  if (ok) {
    untell();
  }
}

function focusOn(what: "composer" | "approval"): void {
  if (what === "composer") {
    composer.focus();
    if (!document.hasFocus()) {
      window.addEventListener("focus", () => composer.focus(), { once: true }); // the editor gives the panel the focus after this
    }
    return;
  }
  paint(); // what was loaded with this message is not in the page yet
  const waiting = view.items().findLast((item) => item.kind === "approval" && str(item.fields, "state") === "pending");
  if (waiting !== undefined) {
    list
      .reveal(cardKeys.get(waiting.id) ?? "")
      ?.querySelector<HTMLElement>(".ap")
      ?.focus();
  }
}

/** Bring an item into view, where it is among those that are loaded. */
function reveal(of: string, itemId: string): void {
  if (of === sessionId) {
    paint();
    const row = list.reveal(itemId);
    row?.focus({ preventScroll: true });
    row?.classList.add("found"); // also for who came by the mouse, who is shown no focus
    row?.addEventListener("blur", () => row.classList.remove("found"), { once: true });
  }
}

/** Draw the heads of turns anew of which the figures became known. */
function touchTurns(before: TurnFacts, now: TurnFacts): void {
  for (const [id, fact] of Object.entries(now)) {
    if (turnFigures(before[id]) !== turnFigures(fact)) {
      list.touch(`turn/${id}`);
    }
  }
}

function takeState(now: PanelState): void {
  touchTurns(state?.session?.turns ?? {}, now.session?.turns ?? {});
  state = now;
  document.body.classList.toggle("restricted", !now.trusted);
  chrome.show(now);
  composer.show(now);
  drawEmpty(now);
  tellState(list.element);
  schedule();
}

function clear(): void {
  sessionId = "";
  own = [];
  view.load([], 0);
  list.clear();
  restructure = true;
  schedule();
}

function receive(message: ToPanel): void {
  switch (message.type) {
    case "state":
      takeState(message.state);
      break;
    case "load":
      load(message);
      break;
    case "clear":
      clear();
      break;
    case "events":
      if (message.sessionId === sessionId) {
        apply(message.events);
      }
      break;
    case "older":
      if (message.sessionId === sessionId) {
        view.prepend(message.items, message.first);
        restructure = true;
        schedule();
      }
      break;
    case "olderDone":
      if (message.sessionId === sessionId) {
        asking = false;
      }
      break;
    case "answering":
      elsewhere.answers(message.itemId);
      break;
    case "whisper":
      if (message.sessionId === sessionId) {
        whisperOwn(message.words);
      }
      break;
    case "told":
      tell(message.words, message.bad);
      break;
    case "done":
      untell();
      break;
    case "focus":
      focusOn(message.what);
      break;
    case "attach":
      composer.attach(message.attachment);
      composer.focus();
      break;
    case "draft":
      composer.draft(message.words);
      break;
    case "found":
      chrome.showFound(message.found);
      break;
    case "reveal":
      reveal(message.sessionId, message.itemId);
      break;
    case "hello":
      send({ type: "ready" });
      break;
    case "selection":
      send({ type: "selection", text: document.getSelection()?.toString() ?? "" });
      break;
    case "sent":
      takeSent(message.ok, message.text);
      break;
  }
}

function drawEmpty(now: PanelState): void {
  const usable = now.trusted && now.folders > 0;
  fill(
    empty,
    icon("shield", "big"),
    h("p", {}, usable ? "Say what should be done." : "Nothing is running."),
    h("p", { class: "q" }, "The agent works on a copy. Your files change when you keep a result."),
  );
}

window.addEventListener("message", (event: MessageEvent<ToPanel>) => receive(event.data));
window.addEventListener("error", (event) => {
  faults += 1;
  if (faults <= FAULTS_MAX) {
    send({ type: "broken", words: event.message });
  }
});
window.addEventListener("keydown", (event) => {
  if (event.key === "." && (event.ctrlKey || event.metaKey) && state?.session?.turnId != null) {
    event.preventDefault();
    send({ type: "verb", verb: "cancel" });
  }
});

document.body.append(
  h(
    "main",
    { class: "panel" },
    ...chrome.top,
    h("div", { class: "middle" }, list.element, empty, more),
    polite,
    urgent,
    h("div", { class: "dock" }, told, ...chrome.aboveComposer, composer.element, chrome.below),
  ),
);
more.hidden = true;
watchColours();
send({ type: "ready" });
