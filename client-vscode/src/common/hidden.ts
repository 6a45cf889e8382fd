/**
 * Characters that hide what a text says.
 *
 * Purpose: split a text that a person decides on into plain parts and escaped ones.
 * Invariant: the parts joined are the text, with each hidden character in its written form.
 * Must never: drop a character, or show one that changes the order or the look of others.
 */

export interface Part {
  readonly text: string;
  readonly hidden: boolean;
}

/** Controls, format characters (bidi, zero width, tags), line separators, lone surrogates, private use and odd spaces. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u00a0\u115f\u1160\u3164\uffa0\u2000-\u200a\u202f\u205f\u3000]/u;
const LINE_BREAKS = /[\n\t]/;

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code <= 0xff) {
    return `\\x${code.toString(16).padStart(2, "0")}`;
  }
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
}

/** The parts of a text; with `lines` line breaks and tabs stand for themselves. */
export function revealParts(text: string, lines = false): Part[] {
  const parts: { text: string; hidden: boolean }[] = [];
  for (const char of text) {
    const hidden = HIDDEN.test(char) && !(lines && LINE_BREAKS.test(char));
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

/** The text with hidden characters written out. */
export function reveal(text: string, lines = false): string {
  return revealParts(text, lines)
    .map((part) => part.text)
    .join("");
}
