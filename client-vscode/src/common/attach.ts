/**
 * References to files in a message.
 *
 * Purpose: name attached files and selections at the end of a message, and find them again.
 * Invariant: a reference names a place, never its content: what a file says stays the file's word, not the user's.
 * Must never: copy text of a file into a message.
 */

import type { Attachment } from "./panel.ts";

const HEAD = "Look at: ";
const ONE = /^`([^`\n]+)`(?: lines (\d+)-(\d+))?$/;

/** The message with one line that names what is attached. */
export function withAttachments(text: string, attachments: readonly Attachment[]): string {
  const named = attachments.filter(({ path }) => !/[`\n,]/.test(path));
  if (named.length === 0) {
    return text;
  }
  const refs = named.map(({ path, lines }) => `\`${path}\`${lines === null ? "" : ` lines ${lines[0]}-${lines[1]}`}`);
  return `${text}\n\n${HEAD}${refs.join(", ")}`;
}

/** A message's own words and what it names in its last line. */
export function splitAttachments(message: string): { readonly text: string; readonly attachments: readonly Attachment[] } {
  const at = message.lastIndexOf(`\n\n${HEAD}`);
  const line = at < 0 ? "" : message.slice(at + 2 + HEAD.length);
  if (line === "" || line.includes("\n")) {
    return { text: message, attachments: [] };
  }
  const attachments: Attachment[] = [];
  for (const ref of line.split(", ")) {
    const found = ONE.exec(ref);
    if (found === null) {
      return { text: message, attachments: [] };
    }
    const [, path, first, last] = found;
    attachments.push({ path: path ?? "", lines: first === undefined || last === undefined ? null : [Number(first), Number(last)] });
  }
  return { text: message.slice(0, at), attachments };
}

/** How an attachment is shown: `retry.py:41–58`. */
export function attachmentLabel({ path, lines }: Attachment): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return lines === null ? name : `${name}:${lines[0]}${lines[1] === lines[0] ? "" : `–${lines[1]}`}`;
}
