/**
 * A call of a tool as one line.
 *
 * Purpose: verb, target, figures and end of a tool row, from the item of the view.
 * Invariant: a proposal is never called an edit; an end that is not known is called unknown.
 * Must never: read meaning out of output or results.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { lasting, sized } from "./words.ts";

export type Fields = ViewItem["fields"];
export type Mark = "done" | "bad" | "blocked" | "denied" | "stopped" | "unknown" | "late" | "running" | "waiting" | "queued";

export interface ToolRow {
  readonly icon: string;
  readonly verb: string;
  readonly target: string;
  readonly mono: boolean;
  readonly figure: string;
  readonly mark: Mark;
  readonly markWords: string;
  readonly body: string;
  /** What was written after the call's end, where it is not the program's own output. */
  readonly note: string;
}

/** A field as text; empty for anything that is none. */
export function str(fields: Fields, name: string): string {
  const value = fields[name];
  return typeof value === "string" ? value : "";
}

/** A field as a number; null for anything that is none. */
export function num(fields: Fields, name: string): number | null {
  const value = fields[name];
  return typeof value === "number" ? value : null;
}

function argumentsOf(fields: Fields): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(str(fields, "arguments"));
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

interface Spoken {
  readonly icon: string;
  readonly now: string;
  readonly done: string;
}

const SPOKEN: Readonly<Record<string, Spoken>> = {
  read_file: { icon: "eye", now: "Reading", done: "Read" },
  list_files: { icon: "eye", now: "Listing", done: "Listed" },
  search: { icon: "search", now: "Searching", done: "Searched" },
  edit_file: { icon: "pencil", now: "Proposing", done: "Proposed" },
  write_file: { icon: "pencil", now: "Proposing", done: "Proposed" },
  delete_file: { icon: "trash", now: "Proposing", done: "Proposed deletion" },
  run_command: { icon: "term", now: "Running", done: "Ran" },
  run_tests: { icon: "beaker", now: "Running", done: "Ran" },
  update_plan: { icon: "plan", now: "Planning", done: "Planned" },
};

function spokenOf(tool: string): Spoken {
  return SPOKEN[tool] ?? { icon: "box", now: "Using", done: "Used" };
}

function targetOf(fields: Fields, tool: string): string {
  const given = argumentsOf(fields);
  if (Array.isArray(given["argv"])) {
    return given["argv"].map(String).join(" ");
  }
  const title = str(fields, "title");
  if (tool === "run_tests") {
    return title.replace(/^Run /, "") || "tests";
  }
  for (const key of ["path", "pattern", "query"]) {
    if (typeof given[key] === "string" && given[key] !== "") {
      return given[key];
    }
  }
  return title || tool;
}

interface End {
  readonly verb: string | null;
  readonly mark: Mark;
  readonly words: string;
  readonly figure: string;
}

/** The rule of the daemon's machine that refuses what a session in plan mode has no place for. */
const PLAN_RULE = "mode:plan";

/** Whether a call was refused because its session was in plan mode. */
export function isPlanRefusal(fields: Fields): boolean {
  const rules = fields["rules"];
  return str(fields, "state") === "denied" && Array.isArray(rules) && rules.includes(PLAN_RULE);
}

/** Under which name this client stands in the record. */
export const CLIENT = "vscode";
/** Who answers cards, as the record names them. */
export const PEOPLE: Readonly<Record<string, string>> = { [CLIENT]: "you", "gloveport-cli": "you, terminal" };
/** Of what answered in the place of a person. */
export const BEFOREHAND = "an answer given beforehand";

/** Who said no, as far as the record tells. */
function deniedBy(fields: Fields): string {
  if (isPlanRefusal(fields)) {
    return "plan mode";
  }
  if (str(fields, "verdict") === "deny") {
    return "by rule";
  }
  const by = str(fields, "answeredBy");
  switch (str(fields, "answer")) {
    case "denied":
      return by === BEFOREHAND ? "nobody was asked" : `by ${PEOPLE[by] ?? by}`;
    case "expired":
      return "nobody answered";
    default:
      return "";
  }
}

const SAID: Readonly<Record<string, string>> = { done: "you say it did", not_done: "you say it didn’t" };

function saidFigure(fields: Fields): string {
  return SAID[str(fields, "said")] ?? "";
}

function endOf(fields: Fields): End {
  const exit = num(fields, "exitCode");
  const micros = num(fields, "durationUs");
  const took = micros === null ? "" : lasting(micros);
  const parts = (...each: string[]): string => each.filter((one) => one !== "").join(" · ");
  switch (str(fields, "state")) {
    case "ok":
      return { verb: null, mark: "done", words: "Done", figure: took };
    case "failed":
      return { verb: null, mark: "bad", words: exit === null ? "Failed" : `Exit ${exit}`, figure: parts(took, exit === null ? "" : `exit ${exit}`) };
    case "timeout":
      return { verb: "Timed out", mark: "bad", words: "Timed out", figure: took === "" ? "" : `ended at ${took}` };
    case "oom":
      return { verb: "Out of memory", mark: "bad", words: "Out of memory", figure: took };
    case "killed":
      return { verb: "Killed", mark: "bad", words: "Killed", figure: took };
    case "policy":
      return { verb: "Blocked", mark: "blocked", words: "Blocked", figure: str(fields, "executor").startsWith("sandbox") ? "by sandbox" : "by rule" };
    case "denied":
      return { verb: str(fields, "answer") === "expired" ? "Not run" : "Denied", mark: "denied", words: "Denied", figure: deniedBy(fields) };
    case "cancelled":
      return { verb: "Stopped", mark: "stopped", words: "Stopped", figure: took };
    case "invalid":
      return { verb: "Refused", mark: "bad", words: "Invalid arguments", figure: "invalid arguments" };
    case "unknown":
    case "lost":
      return { verb: "Outcome unknown", mark: "unknown", words: "Outcome unknown", figure: saidFigure(fields) };
    case "waiting":
      return { verb: "Waiting", mark: "waiting", words: "Waits for you", figure: "waits for you" };
    case "running":
      return { verb: null, mark: "running", words: str(fields, "stopWords") || "Running", figure: str(fields, "stopping") === "" ? "" : "stopping" };
    default:
      return { verb: "Queued", mark: "queued", words: "Not started", figure: "" };
  }
}

function noteOf(fields: Fields): string {
  const parts = [str(fields, "stopWords"), str(fields, "evidence")];
  const bytes = num(fields, "outputBytes");
  if (bytes !== null && bytes > 0) {
    parts.push(sized(bytes));
  }
  return parts.filter((one) => one !== "").join(" · ");
}

/** The row of a tool's item. */
export function toolRow(fields: Fields): ToolRow {
  const tool = str(fields, "tool");
  const spoken = spokenOf(tool);
  const end = endOf(fields);
  const late = fields["late"] === true;
  const ended = end.mark !== "running" && end.mark !== "queued";
  const output = str(fields, "output");
  return {
    icon: spoken.icon,
    verb: late ? "Late result" : (end.verb ?? (ended ? spoken.done : spoken.now)),
    target: targetOf(fields, tool),
    mono: tool !== "run_tests",
    figure: late ? `for goal ${num(fields, "goalRevision") ?? "?"}` : end.figure,
    mark: late ? "late" : end.mark,
    markWords: late ? "Late result, kept in the trace" : end.words,
    body: output === "" ? str(fields, "result") : output,
    note: ended ? noteOf(fields) : "",
  };
}
