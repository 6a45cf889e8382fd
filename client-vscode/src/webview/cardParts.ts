/**
 * Parts of an approval card that only show.
 *
 * Purpose: rows of facts, and what leaves with a call, line by line.
 * Invariant: all of it is there, hidden characters written out; where a part also stands is told by the kind of its line too.
 * Must never: decide, or draw a link or a control from data.
 */

import { linesOf, releaseOf, releaseRules, requestLines, sendsOf } from "../common/cardFacts.ts";
import type { Line, Sends, Word } from "../common/cardFacts.ts";
import type { Fields } from "../common/toolRow.ts";
import { counted, grouped } from "../common/words.ts";
import { button, h, written } from "./dom.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

const PLACE = /^([a-z]{1,12}:\/\/)?([^/\s]+)(:\d{1,5})$/;
const RULE_ICONS = ["lock", "block", "clock"] as const;

/** A sentence whose quoted parts are set as code. */
export function ticks(sentence: string): DocumentFragment {
  const made = document.createDocumentFragment();
  for (const [at, part] of sentence.split("`").entries()) {
    made.append(at % 2 === 1 ? codeOf(part) : written(part));
  }
  return made;
}

/** Code that wraps in one place alone where it is a host with a port: before the port. */
function codeOf(text: string, title = ""): HTMLElement {
  const [, scheme = "", host, port] = PLACE.exec(text) ?? [];
  if (host === undefined || port === undefined) {
    return h("code", title === "" ? {} : { title }, written(text));
  }
  return h("code", {}, scheme, h("span", { class: "arg" }, written(host)), h("span", { class: "arg" }, port));
}

function wordOf(word: Word): HTMLElement {
  if (word.code) {
    return codeOf(word.text, word.whole);
  }
  const title = word.whole === "" ? {} : { title: word.whole };
  return h("span", { class: word.quiet ? "q" : "", ...title }, ticks(word.text));
}

/** Rows of a term and its words. */
export function factsView(lines: readonly Line[]): HTMLElement {
  const list = h("dl", { class: "kv" });
  for (const line of lines) {
    const value = h("dd");
    line.words.forEach((word, at) => value.append(at === 0 ? "" : " ", wordOf(word)));
    list.append(h("dt", {}, line.term), value);
  }
  return list;
}

/** What leaves with a call: where to, what stands before the body, the body; null where the card does not show it. */
export function payloadView(card: Fields): HTMLElement | null {
  const sends = sendsOf(card);
  if (sends === null) {
    return null;
  }
  return h("div", { class: "sends" }, factsView(requestLines(card)), sends.bytes > 0 && bodyView(sends));
}

function bodyView(sends: Sends): HTMLElement {
  const text = sends.lines.map((line) => line.map((run) => run.text).join("")).join("\n");
  const rows = sends.lines.map((line) =>
    h("li", {}, ...line.map((run) => (run.source === null ? written(run.text) : h("span", { class: `src s${run.source}` }, written(run.text))))),
  );
  const legend = sends.sources.map((words, at) =>
    h(
      "li",
      {},
      h("span", { class: `src key s${at}`, attrs: { "aria-hidden": "true" } }),
      h("span", {}, "Also in ", ticks(words), `: ${counted(linesOf(sends, at), "line")}`),
    ),
  );
  const shown = `Exact bytes, ${grouped(sends.bytes)} of ${grouped(sends.bytes)} shown`;
  const hidden = sends.hidden > 0 ? ` · ${counted(sends.hidden, "hidden character")}, escaped` : "";
  return h(
    "div",
    { class: "bytes" },
    h(
      "div",
      { class: "cmd payload", tabindex: 0, role: "region", label: "What would be sent" },
      h(
        "div",
        { class: "xs q row cap" },
        h("span", { class: "grow" }, shown, hidden),
        button("ib small", () => send({ type: "copy", text }), { label: "Copy what would be sent" }, icon("copy")),
      ),
      h("ol", {}, ...rows),
    ),
    legend.length > 0 && h("ul", { class: "legend xs q" }, ...legend),
  );
}

/** What holds for bytes that are released once; null where none are. */
export function releaseView(card: Fields): HTMLElement | null {
  if (releaseOf(card) === null) {
    return null;
  }
  const rows = releaseRules(card).map((words, at) => h("li", {}, icon(RULE_ICONS[at] ?? "info", "q"), h("span", {}, words)));
  return h("div", { class: "sec" }, h("ul", { class: "fx rules" }, ...rows));
}
