/**
 * The view as plain text.
 *
 * Purpose: a transcript that can be read in any editor pane.
 * Invariant: a function of the items alone; text of the model is never given a meaning.
 * Must never: emit a link, a command or markup of its own making from data.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";

type Render = (fields: ViewItem["fields"]) => string;

function text(fields: ViewItem["fields"], name: string): string {
  const value = fields[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function block(head: string, body: string): string {
  return body === "" ? head : `${head}\n${body.replace(/^/gm, "  ")}`;
}

function toolHead(fields: ViewItem["fields"]): string {
  const state = fields["late"] === true ? `${text(fields, "state")} · late result` : text(fields, "state");
  const stopping = state === "running" && text(fields, "stopping") !== "" ? ` · ${text(fields, "stopping")}` : "";
  return `Tool ${text(fields, "title") || text(fields, "tool")} · ${state}${stopping}`;
}

const RENDERERS: Readonly<Record<string, Render>> = {
  session: (f) => `${text(f, "title") || "Session"} · ${text(f, "root")} · ${text(f, "model")} · ${text(f, "sandbox")} (${text(f, "trustLevel")})`,
  "message.user": (f) => block(`You${text(f, "state") === "delivered" ? "" : ` (${text(f, "state")})`}`, text(f, "text")),
  "message.assistant": (f) => block(`Agent${text(f, "state") === "done" ? "" : ` (${text(f, "state")})`}`, text(f, "text")),
  turn: (f) => [`Turn ${text(f, "state")}`, text(f, "message"), text(f, "hint")].filter((part) => part !== "").join(" · "),
  steering: (f) => block(`${text(f, "verb")}: ${text(f, "steeringKind")} (${text(f, "rule") || "as you chose"})`, text(f, "words")),
  tool: (f) => block(toolHead(f), text(f, "output") || text(f, "result")),
  approval: (f) => `Approval ${text(f, "state")}`,
  change: (f) => `Change ${text(f, "path")} · ${text(f, "state")}`,
  apply: (f) => [`${text(f, "action")} ${text(f, "state")}`, text(f, "message")].filter((part) => part !== "").join(" · "),
  tests: (f) => `Tests ${text(f, "passed")} passed, ${text(f, "failed")} failed, ${text(f, "errors")} errors, ${text(f, "skipped")} skipped`,
};

/** The items as text, one paragraph each; kinds without words of their own are left out, as are those `before`. */
export function renderTranscript(items: readonly ViewItem[], before = 0): string {
  const parts = items.map((item) => RENDERERS[item.kind]?.(item.fields)).filter((part) => part !== undefined);
  const head = before === 0 ? [] : [`(${before} earlier entries are not shown here)`];
  return [...head, ...parts].join("\n\n");
}
