/**
 * Pending hunks in a text.
 *
 * Purpose: the text as it would be with the hunks in it, and where each of them then stands.
 * Invariant: lines outside of the hunks are untouched; where the user changed the same lines both versions stand.
 * Must never: guess a place: a hunk without its texts is left out.
 */

import type { PendingHunk } from "../../../protocol/typescript/wire.ts";
import { reveal } from "./hidden.ts";
import { aloneWords, refusedWords } from "./keeping.ts";
import { counted } from "./words.ts";

/** Characters of a new line that are shown beside the old one. */
export const BESIDE_CHARS_MAX = 100;
/** Of the new lines of a hunk, over its mark. */
export const HOVER_LINES_MAX = 40;
const HOVER_CHARS_MAX = 200;
/** So much room in a line carries what follows it out of sight. */
const GAP = /[ \t]{9,}/;

/** Where a hunk stands in a text: lines from 0, the end exclusive. `theirs` is where the user's own lines end in a conflict. */
export interface Placed {
  readonly hunk: PendingHunk;
  readonly line: number;
  readonly end: number;
  readonly theirs: number | null;
}

export interface Proposal {
  readonly text: string;
  readonly placed: readonly Placed[];
}

/** Lines with their ends; a text without a last line end has a last line without one. */
export function splitLines(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function countLines(text: string): number {
  return splitLines(text).length;
}

/** In the order of their places. */
export function sortHunks(hunks: readonly PendingHunk[]): readonly PendingHunk[] {
  return [...hunks].sort((a, b) => a.startLine - b.startLine || a.endLine - b.endLine);
}

/** `text` with the hunks in it. */
export function proposalOf(text: string, hunks: readonly PendingHunk[]): Proposal {
  const lines = splitLines(text);
  const parts: string[] = [];
  const placed: Placed[] = [];
  let [at, made] = [0, 0];
  for (const hunk of sortHunks(hunks)) {
    if (hunk.newText === null || hunk.startLine < at || hunk.endLine > lines.length) {
      continue;
    }
    parts.push(...lines.slice(at, hunk.startLine));
    made += hunk.startLine - at;
    const own = hunk.meets ? lines.slice(hunk.startLine, hunk.endLine) : [];
    const ended = own.length > 0 && own.at(-1)?.endsWith("\n") === false ? "\n" : "";
    parts.push(...own, ended, hunk.newText);
    const count = own.length + countLines(hunk.newText);
    placed.push({ hunk, line: made, end: made + count, theirs: hunk.meets ? made + own.length : null });
    made += count;
    at = hunk.endLine;
  }
  parts.push(...lines.slice(at));
  return { text: parts.join(""), placed };
}

/** What a hunk does, in words: `8 lines added`. */
export function hunkWords(hunk: PendingHunk): string {
  if (hunk.oldCount === 0) {
    return `${counted(hunk.newCount, "line")} added`;
  }
  if (hunk.newCount === 0) {
    return `${counted(hunk.oldCount, "line")} removed`;
  }
  return hunk.oldCount === hunk.newCount
    ? `${counted(hunk.oldCount, "line")} changed`
    : `${counted(hunk.oldCount, "line")} to become ${hunk.newCount}`;
}

/** What stands beside a hunk in the user's file: its one new line where that is seen whole, else what it does, in words. */
export function besideWords(hunk: PendingHunk): string {
  const line = (hunk.newText ?? "").replace(/\n$/, "").replace(/^[ \t]+|[ \t]+$/g, "");
  if (line === "" || line.includes("\n")) {
    return hunkWords(hunk);
  }
  const isWhole = line.length <= BESIDE_CHARS_MAX && !GAP.test(line);
  return isWhole ? `→ ${reveal(line)}` : `${hunkWords(hunk)}, longer than it can be shown here: Compare shows all of it`;
}

/** The new lines of a hunk of several, as they are shown over its mark; empty where one line stands beside it already. */
export function hoverLines(hunk: PendingHunk): string {
  const lines = splitLines(hunk.newText ?? "");
  if (lines.length < 2) {
    return "";
  }
  const shown = lines.slice(0, HOVER_LINES_MAX).map((line) => {
    const text = reveal(line.replace(/\n$/, ""), "lines");
    return text.length > HOVER_CHARS_MAX ? `${text.slice(0, HOVER_CHARS_MAX)} … ${text.length - HOVER_CHARS_MAX} more characters` : text;
  });
  const more = lines.length - shown.length;
  return [...shown, ...(more > 0 ? [`… ${counted(more, "more line")}: Compare shows all of it`] : [])].join("\n");
}

/** The head of a hunk's lens. */
export function lensWords(hunk: PendingHunk, at: number, of: number): string {
  const why = refusedWords(hunk) || aloneWords(hunk);
  const note = why === "" ? "" : ` · ${reveal(why)}`;
  return `${hunk.meets ? "Conflict: you changed this too" : `Gloveport ${at} of ${of}: ${hunkWords(hunk)}`}${note}`;
}

/** The place at a line; a place without lines of its own is found on the line it stands before. */
export function placeAt(placed: readonly Placed[], line: number): Placed | undefined {
  return (
    placed.find((one) => line >= one.line && line < Math.max(one.end, one.line + 1)) ??
    placed.find((one) => one.end === one.line && line === one.line - 1)
  );
}
