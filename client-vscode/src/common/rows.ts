/**
 * From the view's items to the rows of the conversation.
 *
 * Purpose: which item is shown, as what, in which order.
 * Invariant: a function of the items alone; a row's key stays the same while its item lives.
 * Must never: show as done what the record does not say.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { rowOf } from "./cardModel.ts";
import { num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { counted } from "./words.ts";

export type RowKind = "ask" | "say" | "tool" | "reads" | "tests" | "card" | "answered" | "whisper" | "notice" | "recovery" | "turn";

export interface Row {
  readonly key: string;
  readonly kind: RowKind;
  /** The item it shows; a second row of one item (the end of a turn) has another key. */
  readonly id: string;
  /** The cards that are asked about together, or the looks that are one row, the first one among them; others have none. */
  readonly parts?: readonly string[];
}

const ENDED_BADLY = new Set(["failed", "cancelled", "retrying", "stopping", "compacting"]);

function kindOf(item: ViewItem): RowKind | null {
  const { fields } = item;
  switch (item.kind) {
    case "message.user":
      return str(fields, "state") === "queued" ? null : str(fields, "state") === "returned" ? "whisper" : "ask";
    case "message.assistant":
      return "say";
    case "tool":
      return str(fields, "tool") === "update_plan" && str(fields, "state") === "ok" ? null : "tool";
    case "tests":
      return "tests";
    case "approval":
      return str(fields, "state") === "pending" ? "card" : "answered";
    case "apply":
      return str(fields, "state") === "done" ? "whisper" : "notice";
    case "recovery":
      return "recovery";
    case "faults":
    case "freeze":
      return "notice";
    case "steering":
    case "edits":
    case "drift":
    case "compaction":
    case "erasure":
    case "opaque":
      return whisperWords(item) === "" ? null : "whisper";
    case "snapshot":
      return list(fields, "notCovered").length > 0 ? "whisper" : null;
    default:
      return null;
  }
}

/** A field as a list of texts. */
export function list(fields: Fields, name: string): readonly string[] {
  const value = fields[name];
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

function named(paths: readonly string[]): string {
  const names = paths.map((path) => path.slice(path.lastIndexOf("/") + 1));
  return names.length <= 2 ? names.join(", ") : `${names[0] ?? ""} and ${names.length - 1} more`;
}

/** A thing that happened and needs nothing, in one line; empty for what is not worth one. */
export function whisperWords(item: ViewItem): string {
  const { fields } = item;
  switch (item.kind) {
    case "message.user":
      return `Returned to you: ${str(fields, "reason")}`;
    case "apply": {
      const verb = { accept: "Accepted", reject: "Rejected", undo: "Undone" }[str(fields, "action")] ?? "Applied";
      return `${verb}: ${named(list(fields, "paths"))}`;
    }
    case "steering":
      return str(fields, "words");
    case "edits":
      return list(fields, "taken").length > 0 ? `You changed ${named(list(fields, "taken"))}; taken into the copy` : str(fields, "text");
    case "drift":
      return `Changed in your folder: ${named(list(fields, "paths"))}`;
    case "compaction":
      return "Context compacted, nothing removed from the log";
    case "snapshot":
      return `Snapshot: ${counted(list(fields, "notCovered").length, "file")} not covered`;
    case "erasure":
      return `A text was erased from this record: ${counted(num(fields, "events") ?? 0, "entry", "entries")}, ${counted(num(fields, "outputs") ?? 0, "output")}`;
    case "opaque":
      return fields["erased"] === true ? "" : `An entry of a newer version (${str(fields, "type")})`;
    default:
      return "";
  }
}

const GOES_ON = new Set(["running", "stopping", "retrying", "compacting", ""]);

/** Whether more of an answer may come: its own end may be missing, having been erased, when its turn's is not. */
export function isStreaming(fields: Fields, find: (id: string) => ViewItem | undefined): boolean {
  const turn = find(`turn/${str(fields, "turnId")}`);
  return str(fields, "state") === "streaming" && (turn === undefined || GOES_ON.has(str(turn.fields, "state")));
}

/** The end of a turn that did not just complete, in words. */
export function turnWords(fields: Fields): { readonly words: string; readonly hint: string; readonly bad: boolean } {
  switch (str(fields, "state")) {
    case "failed":
      return { words: str(fields, "message") || "The turn failed.", hint: str(fields, "hint"), bad: true };
    case "cancelled":
      return { words: "Stopped", hint: "", bad: false };
    case "stopping":
      return { words: "Stopping", hint: "", bad: false };
    case "compacting":
      return { words: "Shortening the context", hint: "", bad: false };
    case "retrying": {
      const retry = fields["retry"];
      const reason = typeof retry === "object" && retry !== null ? (retry as Fields) : {};
      const seconds = Math.ceil((num(reason, "backoffUs") ?? 0) / 1e6);
      const attempt = `attempt ${num(reason, "attempt") ?? "?"} of ${num(reason, "attemptsMax") ?? "?"}`;
      return { words: `${str(reason, "reason").replace(/\.$/, "")}, trying again in ${seconds} s, ${attempt}`, hint: "", bad: false };
    }
    default:
      return { words: "", hint: "", bad: false };
  }
}

/** Whether a turn ended because a limit of tokens had no room for its next request. */
export function isOverBudget(fields: Fields): boolean {
  return str(fields, "code") === "budget.reached" || str(fields, "code") === "budget.unpriced";
}

function turnEnd(turn: ViewItem | null): readonly Row[] {
  if (turn === null || !ENDED_BADLY.has(str(turn.fields, "state"))) {
    return [];
  }
  const bad = str(turn.fields, "state") === "failed";
  return [{ key: `${turn.id}#end`, kind: bad ? "notice" : "whisper", id: turn.id }];
}

/** Whether a card that waits stands in one row of questions with the one before it. */
function isBeside(items: readonly ViewItem[], before: string, item: ViewItem): boolean {
  const row = rowOf(item.fields);
  const first = items.find((one) => one.id === before);
  return row !== null && first !== undefined && rowOf(first.fields)?.calls.join() === row.calls.join();
}

/** The rows of a view, oldest first. A turn's head stands before the message that began it, its end after all of it. */
export function buildRows(items: readonly ViewItem[]): readonly Row[] {
  const rows: Row[] = [];
  let turn: ViewItem | null = null;
  for (let at = 0; at < items.length; at += 1) {
    const item = items[at] as ViewItem;
    const next = items[at + 1];
    if (item.kind === "message.user" && next?.kind === "turn") {
      rows.push(...turnEnd(turn), { key: next.id, kind: "turn", id: next.id });
      turn = next;
    } else if (item.kind === "turn") {
      if (turn?.id !== item.id) {
        rows.push(...turnEnd(turn), { key: item.id, kind: "turn", id: item.id });
        turn = item;
      }
      continue;
    }
    const kind = kindOf(item);
    const before = rows.at(-1);
    if (kind === "card" && before?.kind === "card" && isBeside(items, before.id, item)) {
      const parts = [...(before.parts ?? [before.id]), item.id];
      rows[rows.length - 1] = { ...before, key: `${parts.join("+")}#card`, parts };
    } else if (kind !== null) {
      rows.push({ key: kind === "card" ? `${item.id}#card` : item.id, kind, id: item.id });
    }
  }
  rows.push(...turnEnd(turn));
  return rows;
}
