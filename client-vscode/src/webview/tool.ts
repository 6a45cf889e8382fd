/**
 * Rows of tools and cards of test results.
 *
 * Purpose: one line a call, its live output beneath, and what the tests reported.
 * Invariant: a row that the reader opened or closed stays so; output is text.
 * Must never: hold more of an output in the page than its last lines.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { isPlanRefusal, num, str, toolRow } from "../common/toolRow.ts";
import type { Fields, Mark, ToolRow } from "../common/toolRow.ts";
import type { Said } from "../common/said.ts";
import { readsWords } from "../common/reads.ts";
import { SAYINGS, isOpenCall, saidWords } from "../common/said.ts";
import { blockedPlaces, resultFindings, unseenWords } from "../common/suspicion.ts";
import { counted, grouped, lasting } from "../common/words.ts";
import { listening } from "./card.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { findingsView } from "./findings.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

const LIVE_LINES = 6;
const OPEN_LINES = 200;
/** Characters of one line, and of all that is shown; the whole output opens as a document. */
const LINE_CHARS_MAX = 2_000;
const SHOWN_CHARS_MAX = 40_000;
const CASES_SHOWN_MAX = 20;

const MARKS: Readonly<Record<Mark, readonly [string, string]>> = {
  done: ["check", "ok"],
  bad: ["close", "bad"],
  blocked: ["block", "warn"],
  denied: ["block", "q"],
  stopped: ["stop", "q"],
  unknown: ["unknown", "warn"],
  late: ["history", "q"],
  running: ["spin", "live spin"],
  waiting: ["clock", "warn"],
  queued: ["clock", "q"],
};

/** Rows the reader opened (true) or closed (false) by hand. */
const chosen = new Map<string, boolean>();

export function toolView(item: ViewItem): HTMLElement {
  const row = toolRow(item.fields);
  const details = h("details", { class: "tool" });
  const summary = h("summary", { tabindex: -1 });
  summary.addEventListener("click", () => chosen.set(item.id, !details.open));
  details.append(summary, h("div", { class: "out" }));
  details.addEventListener("toggle", () => {
    if (details.open) {
      drawOutput(details, item.id, toolRow(latest.get(details) ?? item.fields));
    }
  });
  const beside = h("div", { class: "beside" });
  const element = h("div", { class: "toolrow" }, details, beside);
  latest.set(details, item.fields);
  drawBeside(beside, callIdOf(item.id), item.fields);
  drawSummary(summary, row);
  details.open = chosen.get(item.id) ?? row.mark === "running";
  drawOutput(details, item.id, row);
  return element;
}

function callIdOf(itemId: string): string {
  return itemId.slice(itemId.indexOf("/") + 1);
}

/** Looks that came one after another: one line, and each of them for who opens it. */
export function readsView(key: string, items: readonly ViewItem[]): HTMLElement {
  const { words, figure } = readsWords(items);
  const details = h("details", { class: "tool reads" });
  const summary = h("summary", { tabindex: -1 });
  drawSummary(summary, { icon: "eye", verb: "Read", target: words, mono: false, figure, mark: "done", markWords: "Done", body: "", note: "" });
  const each = h("div", { class: "each" });
  const draw = (): void => {
    const parts = details.open && each.childElementCount === 0 ? items.map((item) => toolView(item)) : [];
    parts.forEach((part) => part.querySelector("summary")?.setAttribute("tabindex", "0")); // the row's own is the list's
    each.append(...parts);
  };
  summary.addEventListener("click", () => chosen.set(key, !details.open));
  details.addEventListener("toggle", draw);
  details.append(summary, each);
  details.open = chosen.get(key) === true;
  draw();
  return h("div", { class: "toolrow" }, details);
}

const latest = new WeakMap<HTMLElement, Fields>();

export function updateTool(item: ViewItem, element: HTMLElement): boolean {
  const details = element.querySelector("details");
  const summary = details?.querySelector("summary");
  if (details === null || summary === null || summary === undefined) {
    return false;
  }
  const row = toolRow(item.fields);
  latest.set(details, item.fields);
  drawBeside(element.querySelector(".beside"), callIdOf(item.id), item.fields);
  drawSummary(summary, row);
  details.open = chosen.get(item.id) ?? row.mark === "running";
  drawOutput(details, item.id, row);
  return true;
}

/** What the user is told of a call outside of what it printed: what was found in it, kept from it, or keeps it. */
function drawBeside(place: HTMLElement | null, callId: string, fields: Fields): void {
  const findings = resultFindings(fields);
  const blocked = blockedPlaces(fields);
  const planned = isPlanRefusal(fields);
  const [open, said, unseen] = [isOpenCall(fields), saidWords(fields), unseenWords(fields)];
  const key = JSON.stringify([findings, blocked, planned, open, said, unseen]);
  if (place === null || place.dataset["drawn"] === key) {
    return; // a passage that is open stays so
  }
  place.dataset["drawn"] = key;
  const toAgent = button("linkish", () => send({ type: "verb", verb: "chooseMode" }), {}, "Choose mode");
  fill(
    place,
    findingsView(findings, "Found in this result"),
    blocked.length > 0 && h("p", { class: "fact" }, icon("block", "s warn"), h("span", {}, "Blocked by sandbox: ", revealed(blocked.join(", ")))),
    planned &&
      h("p", { class: "fact" }, icon("plan", "s q"), h("span", {}, "Plan mode looks and changes nothing. Agent mode lets it work. ", toAgent)),
    unseen !== "" && h("p", { class: "fact" }, icon("warnt", "s warn"), h("span", {}, revealed(unseen))),
    open && settleView(callId),
    said !== "" && h("p", { class: "fact" }, icon("info", "s q"), h("span", {}, revealed(said))),
  );
}

/** Nobody knows what it did: what the user found is told to the model as the user's word; who leaves it says nothing. */
function settleView(callId: string): HTMLElement {
  const act = h("div", { class: "act" });
  const hears = listening(act);
  const say = (said: Said) => (): void => {
    if (hears()) {
      send({ type: "settle", callId, said });
    }
  };
  act.append(...SAYINGS.map(({ said, label, detail }) => button("btn", say(said), { title: detail }, label)));
  const words = "It may or may not have taken effect. Look first: your answer runs nothing.";
  return h("div", { class: "settle", role: "group", label: "What became of it" }, h("p", { class: "sm q" }, words), act);
}

function drawSummary(summary: HTMLElement, row: ToolRow): void {
  const [sign, tone] = MARKS[row.mark];
  const key = `${row.verb}\n${row.target}\n${row.figure}\n${row.mark}`;
  if (summary.dataset["drawn"] === key) {
    return;
  }
  summary.dataset["drawn"] = key;
  const target = h("span", { class: row.mono ? "tg mono" : "tg", title: row.target.slice(0, LINE_CHARS_MAX) }, revealed(row.target.slice(0, 400)));
  fill(
    summary,
    h("span", { class: "slot" }, icon(row.icon, "s ic kind"), icon("cr", "s ic chev")),
    h("span", { class: "vb" }, row.verb),
    target,
    h("span", { class: "du" }, row.figure),
    icon(sign, `s ${tone}`, row.markWords),
  );
}

function tailLines(text: string, count: number): { readonly lines: readonly string[]; readonly total: number } {
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  let total = 1;
  for (let at = body.indexOf("\n"); at >= 0; at = body.indexOf("\n", at + 1)) {
    total += 1;
  }
  const end = body.slice(-SHOWN_CHARS_MAX);
  return { lines: end.split("\n").slice(-count), total };
}

function drawOutput(details: HTMLDetailsElement, id: string, row: ToolRow): void {
  const out = details.querySelector<HTMLElement>(".out");
  if (out === null) {
    return;
  }
  const live = row.mark === "running";
  if (!details.open || (live && row.body === "")) {
    out.hidden = live && row.body === "";
    if (!details.open) {
      fill(out);
    }
    return;
  }
  out.hidden = false;
  const { lines, total } = tailLines(row.body, live && chosen.get(id) !== true ? LIVE_LINES : OPEN_LINES);
  const cut = lines.map((line) =>
    line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)} … ${grouped(line.length - LINE_CHARS_MAX)} more characters` : line,
  );
  const pre = h("pre", { tabindex: 0 }, row.body === "" ? "(no output)" : revealed(cut.join("\n"), "lines"));
  const words = lines.length < total ? `Last ${lines.length} of ${counted(total, "line")}` : row.note;
  fill(
    out,
    pre,
    h(
      "div",
      { class: "ft" },
      h("span", { class: "grow ell", title: row.note }, words),
      !live && button("btn ghost sm", () => send({ type: "why", callId: callIdOf(id) }), { label: "Why it was allowed and how it ended" }, "Why"),
      row.body !== "" && button("btn ghost sm", () => send({ type: "openOutput", itemId: id }), {}, "Open output"),
      live && button("btn ghost sm", () => send({ type: "verb", verb: "cancel" }), {}, icon("stop", "xs"), "Stop"),
    ),
  );
  pre.scrollTop = pre.scrollHeight;
}

interface Case {
  readonly name: string;
  readonly status: string;
  readonly message: string;
  readonly micros: number | null;
}

function casesOf(fields: Fields): readonly Case[] {
  const cases = fields["cases"];
  return (Array.isArray(cases) ? (cases as readonly Fields[]) : []).map((one) => ({
    name: str(one, "name"),
    status: str(one, "status"),
    message: str(one, "message"),
    micros: num(one, "duration_us"),
  }));
}

/** Where a test lies, as far as its name tells. */
function placeOf(name: string): { readonly file: string; readonly test: string } {
  const at = name.indexOf("::");
  return at < 0 ? { file: "", test: name } : { file: name.slice(0, at), test: name.slice(at + 2) };
}

export function testsView(item: ViewItem): HTMLElement {
  const { fields } = item;
  const figures = (["passed", "failed", "errors", "skipped"] as const).map((name) => [name, num(fields, name) ?? 0] as const);
  const looks = { passed: ["check", "ok"], failed: ["close", "bad"], errors: ["errc", "bad"], skipped: ["block", "q"] } as const;
  const counts = figures
    .filter(([name, count]) => count > 0 || name === "passed")
    .map(([name, count]) => h("span", { class: "count" }, icon(looks[name][0], `s ${looks[name][1]}`), `${grouped(count)} ${name}`));
  const failed = casesOf(fields).filter((one) => one.status === "failed" || one.status === "error");
  const rows = failed.slice(0, CASES_SHOWN_MAX).map((one) => caseView(one));
  const more = failed.length - rows.length + (num(fields, "casesLeftOut") ?? 0);
  return h(
    "div",
    { class: "pad" },
    h(
      "div",
      { class: "card tests", role: "group", label: "Test result, as the code under test reported it" },
      h(
        "div",
        { class: "hd" },
        icon("beaker", "q"),
        h("span", { class: "num row grow" }, ...counts),
        button("ib", () => send({ type: "verb", verb: "openTests" }), { label: "Show in the Test view" }, icon("goto")),
      ),
      ...rows,
      more > 0 && h("div", { class: "fail xs q" }, `${grouped(more)} more in the Test view`),
    ),
  );
}

function caseView(one: Case): HTMLElement {
  const { file, test } = placeOf(one.name);
  const name = file.slice(file.lastIndexOf("/") + 1);
  const place = file === "" ? null : button("linkish xs q", () => send({ type: "openFile", path: file, line: null }), { title: file }, name);
  const took = one.micros === null ? "" : lasting(one.micros);
  const told = h(
    "details",
    { class: "grow", attrs: { open: "" } },
    h(
      "summary",
      { class: "row", title: `${one.name} ${took}` },
      icon("errc", "s bad", one.status),
      h("span", { class: "mono grow ell" }, revealed(test)),
    ),
    one.message !== "" && h("p", { class: "mono q msg" }, revealed(one.message.slice(0, LINE_CHARS_MAX), "lines")),
  );
  return h("div", { class: "fail case" }, told, place); // a button inside a summary would be two controls in one
}
