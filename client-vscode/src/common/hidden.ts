/**
 * Characters that hide what a text says.
 *
 * Purpose: split a text that a person decides on into plain parts and escaped ones.
 * Invariant: the parts joined are the text, with each hidden character in its written form.
 * Must never: drop a character, or show one that changes the order or the look of others.
 */

import { HIDDEN_RANGES } from "../../../protocol/typescript/hidden.ts";

export interface Part {
  readonly text: string;
  readonly hidden: boolean;
}

/** Of the daemon's own table: controls, formats, private and unassigned ones, combining marks, odd spaces, blank letters. */
const HIDDEN = new RegExp(`[${HIDDEN_RANGES.replaceAll(/([0-9a-f]+)/g, "\\u{$1}").replaceAll(" ", "")}]`, "u");
/** Of those, what writes words and pictures: marks that are seen above or below a letter, and the look of a picture after it. */
const SEEN_MARK = /(?!\p{Default_Ignorable_Code_Point})[\p{Mn}\p{Me}]/u;
const PICTURE = /\p{Extended_Pictographic}$/u;
const LOOK_OF_PICTURE = /[\ufe0e\ufe0f]/;
/** Of those, what no script and no emoji needs: controls, bidi, zero-width spaces, tags. */
const HIDDEN_IN_PROSE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;
const LINE_BREAKS = /[\n\t]/;
const NAMES: Readonly<Record<string, string>> = { "\n": "LF", "\r": "CR", "\t": "TAB", "\0": "NUL", "\u001b": "ESC" };
/** The written form, as the daemon writes it too; it escapes the brackets themselves, so a text can't imitate it. */
const WRITTEN = /(\u27e8(?:U\+[0-9A-F]{4,6}|LF|CR|TAB|NUL|ESC|\d+ spaces)\u27e9)/;

function escaped(char: string): string {
  const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `\u27e8${NAMES[char] ?? `U+${code}`}\u27e9`;
}

/** What a text is: a name must differ from each other in what is seen; in words and lines the marks of writing stay. */
export type Kind = "name" | "words" | "lines";

function isHiddenIn(kind: Kind, char: string, before: string): boolean {
  if (!HIDDEN.test(char) || kind === "name") {
    return HIDDEN.test(char);
  }
  const isWriting = SEEN_MARK.test(char) || (LOOK_OF_PICTURE.test(char) && PICTURE.test(before));
  return !isWriting && !(kind === "lines" && LINE_BREAKS.test(char));
}

/** The parts of a text. */
export function revealParts(text: string, kind: Kind = "name"): Part[] {
  return split(text, (char, before) => isHiddenIn(kind, char, before));
}

/** The parts of a text that is read, not decided on: what scripts and emoji need stays. */
export function proseParts(text: string): Part[] {
  return HIDDEN_IN_PROSE.test(text) ? split(text, (char) => HIDDEN_IN_PROSE.test(char)) : [{ text, hidden: false }];
}

/** The parts of a text that the daemon has escaped. */
export function writtenParts(text: string): Part[] {
  return text
    .split(WRITTEN)
    .filter((part) => part !== "")
    .map((part) => ({ text: part, hidden: WRITTEN.test(part) }));
}

function split(text: string, isHidden: (char: string, before: string) => boolean): Part[] {
  const parts: { text: string; hidden: boolean }[] = [];
  let before = "";
  for (const char of text) {
    const hidden = isHidden(char, before);
    before = char;
    const shown = hidden ? escaped(char) : char;
    const last = parts.at(-1);
    if (last !== undefined && !hidden && !last.hidden) {
      last.text += shown;
    } else {
      parts.push({ text: shown, hidden });
    }
  }
  return parts;
}

/** A tooltip or a label, of one or more lines, each with its hidden characters written out. */
export function revealTip(text: string): string {
  return text
    .split("\n")
    .map((line) => reveal(line))
    .join("\n");
}

/** The text with hidden characters written out. */
export function reveal(text: string, kind: Kind = "name"): string {
  return revealParts(text, kind)
    .map((part) => part.text)
    .join("");
}
