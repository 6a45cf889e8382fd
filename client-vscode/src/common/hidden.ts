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

/** The parts of a text; with `lines` line breaks and tabs stand for themselves. */
export function revealParts(text: string, lines = false): Part[] {
  return split(text, (char) => HIDDEN.test(char) && !(lines && LINE_BREAKS.test(char)));
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

function split(text: string, isHidden: (char: string) => boolean): Part[] {
  const parts: { text: string; hidden: boolean }[] = [];
  for (const char of text) {
    const hidden = isHidden(char);
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
