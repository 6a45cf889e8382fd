/**
 * What a session is called that nobody gave a title.
 *
 * Purpose: the first words of its first message in place of the folder's name, which all sessions of a folder share.
 * Invariant: words are read anew when the session changed, so that what was erased stands nowhere.
 * Must never: write a title into the record: that is the user's.
 */

import type { SessionInfo } from "../../../protocol/typescript/wire.ts";
import { splitAttachments } from "./attach.ts";
import type { Rpc } from "./rpc.ts";
import { str } from "./toolRow.ts";
import { splitPath } from "./words.ts";

/** The first message is among so many first items. */
const FIRST_ITEMS = 10;
const TITLE_CHARS_MAX = 60;
/** So many sessions are asked at a time; those below stand under their folder's name until then. */
const ASKED_MAX = 30;

interface Known {
  readonly updatedAt: number;
  readonly words: string;
}

function isUntitled({ title, root }: SessionInfo): boolean {
  return title === "" || title === splitPath(root).name;
}

/** The beginning of a message, in one line. */
export function titleOf(message: string): string {
  const words = splitAttachments(message)
    .text.split(/\s+/)
    .filter((one) => one !== "")
    .join(" ");
  const cut = words.lastIndexOf(" ", TITLE_CHARS_MAX);
  return words.length <= TITLE_CHARS_MAX ? words : `${words.slice(0, cut > 0 ? cut : TITLE_CHARS_MAX)}…`;
}

export class Titles {
  private readonly known = new Map<string, Known>();

  /** The list as it is shown. */
  named(list: readonly SessionInfo[]): readonly SessionInfo[] {
    return list.map((one) => {
      const words = isUntitled(one) ? (this.known.get(one.sessionId)?.words ?? "") : "";
      return { ...one, title: words || one.title || splitPath(one.root).name };
    });
  }

  /** Ask for the first words of sessions that have no title; whether any are other words than before. */
  async learn(connection: Rpc, list: readonly SessionInfo[]): Promise<boolean> {
    const asked = list.filter((one) => isUntitled(one) && this.known.get(one.sessionId)?.updatedAt !== one.updatedAt).slice(0, ASKED_MAX);
    let news = false;
    for (const { sessionId, updatedAt } of asked) {
      const { items } = await connection.call("session/item/list", { sessionId, before: FIRST_ITEMS, limit: FIRST_ITEMS });
      const said = items?.find((one) => one.kind === "message.user");
      const words = said === undefined ? "" : titleOf(str(said.fields, "text"));
      news ||= words !== (this.known.get(sessionId)?.words ?? "");
      this.known.set(sessionId, { updatedAt, words });
    }
    return news;
  }
}
