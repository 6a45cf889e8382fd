/**
 * Cards that are asked about together.
 *
 * Purpose: show every part of such a question whole, each with its own answer, and one answer for all where that is enough.
 * Invariant: all parts stand there before any is answered; one answer for all is sent as one for each, by its own digest.
 * Must never: offer one answer for parts that can't be undone or carry a high risk.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { answersForAll } from "../common/cardModel.ts";
import type { FileRow } from "../common/panel.ts";
import { cardView, listening } from "./card.ts";
import { button, fill, h } from "./dom.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

export function cardRowView(items: readonly ViewItem[], files: () => readonly FileRow[]): HTMLElement {
  const both = h("div", { class: "act pad" });
  const hears = listening(both);
  const element = h("div", { class: "together", role: "group", label: `${items.length} questions together` });
  const forAll = (allow: boolean, words: string): HTMLElement | false => {
    const answers = answersForAll(items, allow);
    const answer = (): void => {
      if (answers !== null && hears()) {
        send({ type: "answerAll", answers });
        element.classList.add("sent");
      }
    };
    return answers !== null && button("btn tall grow", answer, {}, words);
  };
  const [allow, deny] = [forAll(true, `Allow each once (${items.length})`), forAll(false, "Deny all")];
  const how = allow === false ? "Each is answered by itself." : "Answer each, or all at once.";
  const parts = items.map((item, at) => {
    const number = h("div", { class: "xs q part" }, `${at + 1} of ${items.length}`);
    return h("div", { class: "partbox" }, number, cardView(item, files));
  });
  fill(both, allow, deny);
  fill(
    element,
    h("div", { class: "row pad" }, icon("shield"), h("span", { class: "grow" }, `${items.length} of one kind are asked about together. ${how}`)),
    ...parts,
    (allow !== false || deny !== false) && both,
  );
  return h("div", {}, element); // the list gives the outer one its place in the set, which a group has none of
}
