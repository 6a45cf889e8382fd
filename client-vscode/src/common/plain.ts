/**
 * Words of data in the window's own chrome.
 *
 * Purpose: names, titles and messages for lists, trees, notifications and the Test Explorer, as the plain text they are.
 * Invariant: nothing in them is drawn as an icon or becomes a link or a command; hidden characters are written out.
 * Must never: leave a part out.
 */

import { reveal } from "./hidden.ts";

/** What a label draws as an icon: `$(name)`, `$(name~spin)`. */
const ICON = /\$\([A-Za-z0-9-]+(?:~[A-Za-z]+)?\)/g;
/** Where a notification sees a link: `[words](address)`. */
const LINK = /\](?=\()/g;

/** For a label that draws icons: each stands there as it is written. */
export function labelText(words: string): string {
  return reveal(words).replace(ICON, "\\$&");
}

/** For a notification, which makes links, also such that run commands: a space takes their form away. */
export function noticeText(words: string): string {
  return reveal(words, "lines").replace(LINK, "] ");
}
