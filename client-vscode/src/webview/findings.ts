/**
 * What was found in a result or a proposed file, as elements.
 *
 * Purpose: one line for each thing that was found, with its passage for who wants to see it.
 * Invariant: it stands beside what a model or a program wrote, never in it; a passage is text with nothing hidden in it.
 * Must never: offer a control whose words come from a passage.
 */

import type { Finding } from "../common/suspicion.ts";
import { h, written } from "./dom.ts";
import { icon } from "./icons.ts";

const SHOWN_MAX = 3;

/** A list of what was found; null where that is nothing. `signed`: what it stands under bears the warning sign already. */
export function findingsView(findings: readonly Finding[], label: string, signed = false): HTMLElement | null {
  if (findings.length === 0) {
    return null;
  }
  const rows = findings.slice(0, SHOWN_MAX).map((one) => h("li", {}, signed ? h("span") : icon("warnt", "warn"), findingWords(one)));
  const left = findings.length - rows.length;
  return h("ul", { class: "fx findings", label }, ...rows, left > 0 && h("li", {}, h("span"), h("span", { class: "q" }, `${left} more`)));
}

function findingWords({ words, excerpt }: Finding): HTMLElement {
  if (excerpt === "") {
    return h("span", {}, words);
  }
  return h(
    "details",
    { class: "passage" },
    h("summary", {}, words, " ", h("span", { class: "linkish" }, "Show passage")),
    h("p", { class: "mono q" }, written(excerpt)),
  );
}
