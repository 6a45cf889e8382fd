/**
 * What a search of sessions found, as rows.
 *
 * Purpose: from the daemon's answers for each folder of a window to one list, newest first.
 * Invariant: a row stands for one message; a session in which the title alone fits has none here, as the list has it.
 * Must never: claim that all was looked at when it was not.
 */

import type { SessionSearchResult } from "../../../protocol/typescript/wire.ts";
import type { Found, FoundRow } from "./panel.ts";
import { splitPath } from "./words.ts";

export const SEARCH_FROM = 2;
const ROWS_MAX = 40;

/** `titled` says what a session is called. */
export function foundIn(text: string, answers: readonly SessionSearchResult[], titled: (id: string) => string): Found {
  const found = answers.flatMap((one) => one.found).sort((a, b) => b.session.updatedAt - a.session.updatedAt);
  const rows = found.flatMap(({ session, hits }): FoundRow[] => {
    const { sessionId, title, root, phase, updatedAt } = session;
    const row = { id: sessionId, title: titled(sessionId) || title || splitPath(root).name, phase, folder: root, updatedAt };
    return hits.map(({ itemId, who, words }) => ({ session: row, itemId, who, words }));
  });
  const looked = answers.reduce((sum, one) => sum + one.looked, 0);
  const whole = answers.every((one) => one.complete) && rows.length <= ROWS_MAX;
  return { text, rows: rows.slice(0, ROWS_MAX), note: whole ? "" : `Looked at the newest ${looked} sessions; there is more.` };
}
