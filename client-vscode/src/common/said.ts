/**
 * Calls of which nobody knows what they did, and what the user says of them.
 *
 * Purpose: which calls are open, what can be said of one, and how it is shown once it was said.
 * Invariant: what was said stands there as somebody's word; the record that nobody knows stays beside it.
 * Must never: call an outcome known because somebody said something of it.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { str, toolRow } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";

export type Said = "done" | "not_done";

/** The name under which this extension speaks to the daemon. */
export const OWN_NAME = "vscode";

/** What can be said of a call, in the order in which it is offered. */
export const SAYINGS = [
  { said: "done", label: "It happened", detail: "The model is told to treat it as done, and not to run it again." },
  { said: "not_done", label: "It did not happen", detail: "The model is told that it did not take effect, and may ask for it again." },
] as const;

const OPEN = new Set(["lost", "unknown"]);

/** Whether nobody knows if a call took effect, and nobody has said it. */
export function isOpenCall(fields: Fields): boolean {
  return OPEN.has(str(fields, "state")) && str(fields, "said") === "";
}

/** What was said of a call and by whom; empty where nothing was. */
export function saidWords(fields: Fields): string {
  const said = SAYINGS.find((one) => one.said === fields["said"]);
  if (said === undefined) {
    return "";
  }
  const by = str(fields, "saidBy");
  const who = by === OWN_NAME || by === "" ? "You said" : `You said (${by})`;
  return `${who}: ${said.label.toLowerCase()}. It is your word; nobody else knows.`;
}

export interface OpenCall {
  readonly callId: string;
  readonly words: string;
}

/** The calls of a view of which something can be said, oldest first. */
export function openCalls(items: readonly ViewItem[]): readonly OpenCall[] {
  return items
    .filter((item) => item.kind === "tool" && isOpenCall(item.fields))
    .map((item) => ({ callId: item.id.slice(item.id.indexOf("/") + 1), words: toolRow(item.fields).target }));
}
