/**
 * Whether the words of a card can be seen.
 *
 * Purpose: measure the colours of cards, which a folder's settings may choose, and give cards colours of our own where they hide words.
 * Invariant: measured again whenever the colours change; a card says so where its colours are not the window's.
 * Must never: touch anything outside of cards.
 */

import { contrastOn } from "../common/contrast.ts";
import { h } from "./dom.ts";

/** The least contrast of words, and of signs that have words beside them. */
const WORDS_MIN = 4.5;
const SIGNS_MIN = 3;
/** The words on a button, which themes make fainter than any text. */
const BUTTONS_MIN = 2.5;
const OWN = "own-colours";
/** Quiet words are as loud as the others. */
const LOUD = "loud-quiet";

/** Each kind of text of a card once, as the style knows it. */
function sample(): readonly (readonly [HTMLElement, number])[] {
  const words = (...classes: readonly string[]): (readonly [HTMLElement, number])[] =>
    classes.map((name) => [h("span", { class: name }, "x"), WORDS_MIN]);
  return [
    ...words("", "cmd", "esc", "sel"),
    [h("span", { class: "sum" }, h("code", {}, "x")), WORDS_MIN],
    [h("span", { class: "cmd difft" }, h("div", { class: "ins" }, "x")), WORDS_MIN],
    [h("span", { class: "cmd difft" }, h("div", { class: "rem" }, "x")), WORDS_MIN],
    [h("span", { class: "warn" }, "x"), SIGNS_MIN],
    [h("span", { class: "btn" }, "x"), BUTTONS_MIN],
    [h("span", { class: "btn pri" }, "x"), BUTTONS_MIN],
  ];
}

function contrastOf(leaf: Element): number {
  const layers: string[] = [];
  for (let at: Element | null = leaf; at !== null; at = at.parentElement) {
    layers.unshift(getComputedStyle(at).backgroundColor);
  }
  return contrastOn(getComputedStyle(leaf).color, layers);
}

function measure(): void {
  const parts = sample();
  const probe = h("div", { class: "ap", attrs: { "aria-hidden": "true" } }, ...parts.map(([element]) => element));
  probe.hidden = true;
  const quiet = h("span", { class: "q" }, "x");
  probe.append(quiet);
  document.body.classList.remove(OWN, LOUD);
  document.body.append(probe);
  const isFaint = parts.some(([element, least]) => contrastOf(element.firstElementChild ?? element) < least);
  const isQuietFaint = contrastOf(quiet) < WORDS_MIN;
  probe.remove();
  document.body.classList.toggle(OWN, isFaint);
  document.body.classList.toggle(LOUD, isQuietFaint && !isFaint);
}

/** Look at the colours now, and whenever the window changes them. */
export function watchColours(): void {
  measure();
  const seen = new MutationObserver(() => {
    measure();
    seen.takeRecords(); // of its own
  });
  seen.observe(document.documentElement, { attributes: true, attributeFilter: ["style", "class"] });
  seen.observe(document.body, { attributes: true, attributeFilter: ["style", "class"] });
  seen.observe(document.head, { childList: true, subtree: true, characterData: true });
}

/** The line of a card that says whose colours it has; seen only where they are our own. */
export function coloursLine(): HTMLElement {
  return h("p", { class: "xs q about owncol" }, "The window’s colours would hide words of this card, so it has its own.");
}
