/**
 * What was found in results and proposed files, in words.
 *
 * Purpose: say where something looks like a secret or like words to an agent, and what a sandbox kept from being reached.
 * Invariant: a look is told as a look: what stands there is never called safe, and never called an attack.
 * Must never: show a secret, or give an excerpt another meaning than that of text.
 */

import type { Suspected } from "../../../protocol/typescript/wire.ts";
import { sub, subs, texts } from "./cardModel.ts";
import type { FileRow } from "./panel.ts";
import { num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { counted } from "./words.ts";

/** One thing that was found, and the place itself as the daemon shows it. */
export interface Finding {
  readonly words: string;
  readonly excerpt: string;
}

const READ_AS_DATA = "It is treated as data.";

function hintWords(kind: string, line: number): string {
  return kind === "hidden_characters" ? `Line ${line} holds hidden characters.` : `Line ${line} reads like words to an agent. ${READ_AS_DATA}`;
}

/** What a look found in a proposed file; nothing where nothing was found. */
export function suspectedFindings(found: Suspected | null | undefined): readonly Finding[] {
  if (found === null || found === undefined) {
    return [];
  }
  const secrets = found.secrets.map(({ kind, line }) => ({ words: `Line ${line} looks like a secret (${kind}).`, excerpt: "" }));
  const hints = found.hints.map(({ kind, line, excerpt }) => ({ words: hintWords(kind, line), excerpt: excerpt ?? "" }));
  const more = found.leftOut > 0 ? [{ words: `${counted(found.leftOut, "more place")} like this.`, excerpt: "" }] : [];
  const unread = found.lookedAt ? [] : [{ words: "Too large to be looked through for secrets.", excerpt: "" }];
  return [...secrets, ...more, ...hints, ...unread];
}

/** What a look found in the result of a call. */
export function resultFindings(fields: Fields): readonly Finding[] {
  const hints = subs(fields, "hints").map((one) => ({ words: hintWords(str(one, "kind"), num(one, "line") ?? 0), excerpt: str(one, "excerpt") }));
  const left = num(fields, "hintsLeftOut") ?? 0;
  return [...hints, ...(left > 0 ? [{ words: `${counted(left, "more place")} like this.`, excerpt: "" }] : [])];
}

const UNSEEN_NAMED_MAX = 3;

/** Files that a call left where nobody looked through them, in words; empty where there are none. */
export function unseenWords(fields: Fields): string {
  const files = num(fields, "unseen") ?? 0;
  if (files === 0) {
    return "";
  }
  const paths = texts(fields, "unseenPaths");
  const named = paths.slice(0, UNSEEN_NAMED_MAX).join(", ");
  const more = files > UNSEEN_NAMED_MAX && paths.length > 0 ? ` and ${counted(files - Math.min(UNSEEN_NAMED_MAX, paths.length), "more file")}` : "";
  return `Not looked through: ${named === "" ? counted(files, "file") : named}${more}. Nothing leaves this session unasked from here on.`;
}

/** Places that a call was kept from reaching: `example.net:443`, each once. */
export function blockedPlaces(fields: Fields): readonly string[] {
  const refused = subs(fields, "egress").filter((one) => one["allowed"] === false);
  const names = refused.map((one) => (str(one, "host") === "" ? "a place that can’t be read" : `${str(one, "host")}:${num(one, "port") ?? 0}`));
  return [...new Set(names)];
}

/** Of the proposed files in which something was found, those that a card names. */
export function suspectedOf(card: Fields, files: readonly FileRow[]): readonly FileRow[] {
  const words = texts(sub(card, "command") ?? {}, "words");
  const named = new Set([
    ...subs(card, "files").map((one) => str(one, "path")),
    ...subs(card, "effects").map((one) => str(one, "target")),
    ...words.map((word) => word.replace(/^\.\//, "")),
  ]);
  return files.filter((one) => one.findings.length > 0 && named.has(one.path));
}
