/**
 * Looks that came one after another, as one row.
 *
 * Purpose: a turn that reads ten files says so in one line, and tells each for who opens it.
 * Invariant: only looks that ended well and of which nothing is to be told are put together; their order stays.
 * Must never: hide a call that waits, failed, came late, or in whose result something was found.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import type { Row } from "./rows.ts";
import { isOpenCall, saidWords } from "./said.ts";
import { blockedPlaces, resultFindings, unseenWords } from "./suspicion.ts";
import { num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { counted, lasting } from "./words.ts";

const LOOKS = ["read_file", "list_files", "search"] as const;

function isQuietLook(fields: Fields): boolean {
  const looks = LOOKS.some((one) => one === str(fields, "tool")) && str(fields, "state") === "ok" && fields["late"] !== true;
  const told = isOpenCall(fields) || saidWords(fields) !== "" || unseenWords(fields) !== "";
  return looks && !told && resultFindings(fields).length === 0 && blockedPlaces(fields).length === 0;
}

/** The rows with looks that follow one another as one; two at least. */
export function groupReads(rows: readonly Row[], find: (id: string) => ViewItem | undefined): readonly Row[] {
  const grouped: Row[] = [];
  let run: Row[] = [];
  const end = (): void => {
    const [first] = run;
    grouped.push(...(first === undefined || run.length < 2 ? run : [groupOf(first, run)]));
    run = [];
  };
  for (const row of rows) {
    const item = row.kind === "tool" ? find(row.id) : undefined;
    if (item !== undefined && isQuietLook(item.fields)) {
      run.push(row);
    } else {
      end();
      grouped.push(row);
    }
  }
  end();
  return grouped;
}

/** Its key names how many there are: one more is another row. */
function groupOf(first: Row, run: readonly Row[]): Row {
  return { key: `${first.key}#reads${run.length}`, kind: "reads", id: first.id, parts: run.map((one) => one.id) };
}

/** `3 files, 1 search`, and how long they took together; empty where a time is not known. */
export function readsWords(items: readonly ViewItem[]): { readonly words: string; readonly figure: string } {
  const of = (tool: (typeof LOOKS)[number]): number => items.filter((item) => str(item.fields, "tool") === tool).length;
  const [files, folders, searches] = [of("read_file"), of("list_files"), of("search")];
  const words = [
    files > 0 ? counted(files, "file") : "",
    folders > 0 ? counted(folders, "folder") : "",
    searches > 0 ? counted(searches, "search", "searches") : "",
  ];
  const times = items.map((item) => num(item.fields, "durationUs"));
  const known = times.filter((one): one is number => one !== null);
  const figure = known.length < times.length ? "" : lasting(known.reduce((sum, one) => sum + one, 0));
  return { words: words.filter((one) => one !== "").join(", "), figure };
}
