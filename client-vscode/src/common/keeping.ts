/**
 * What is kept together, and what by itself.
 *
 * Purpose: part proposed files as the daemon accepts them, and say in words why one is kept by its own button or not at all.
 * Invariant: what is kept is named by the digest of what was shown; what was left is told with why.
 * Must never: keep what runs by itself, or what a rule speaks of, with other files.
 */

import type { ChangeInfo, FileRule, PendingHunk } from "../../../protocol/typescript/wire.ts";
import { RpcError } from "./rpc.ts";
import { counted } from "./words.ts";

/** A proposal as it was shown. */
export interface Shown {
  readonly changeId: string;
  readonly digest: string;
}

/** A file that was not kept, and why, as a sentence. */
export interface Left {
  readonly path: string;
  readonly why: string;
}

type Ruled = Pick<ChangeInfo | PendingHunk, "runsByItself" | "rule">;

const LEFT_NAMED_MAX = 5;
/** What the daemon does not accept with others, or at all; it names the paths. */
const NOT_TOGETHER: readonly string[] = ["policy.denied", "workspace.protected"];

function sentence(words: string): string {
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

function ruleOf(one: Ruled, verdict: FileRule["verdict"]): FileRule | null {
  const rule = one.rule ?? null;
  return rule?.verdict === verdict ? rule : null;
}

/** Why no answer keeps it; empty where one may. */
export function refusedWords(one: Ruled): string {
  const rule = ruleOf(one, "deny");
  return rule === null ? "" : sentence(`The rule ${rule.ruleId} refuses it: ${rule.words}`);
}

/** Why it is kept by itself alone; empty for an ordinary file. */
export function aloneWords(one: Ruled): string {
  const rule = ruleOf(one, "ask");
  const asks = rule === null ? [] : [sentence(`The rule ${rule.ruleId} asks about it: ${rule.words}`)];
  return [...(one.runsByItself === null ? [] : [sentence(`Runs by itself: ${one.runsByItself}`)]), ...asks].join(" ");
}

/** Which of these files are kept together, and which are left. */
export function parted(changes: readonly ChangeInfo[]): { readonly together: readonly ChangeInfo[]; readonly left: readonly Left[] } {
  const why = (one: ChangeInfo): string => refusedWords(one) || aloneWords(one);
  return {
    together: changes.filter((one) => why(one) === ""),
    left: changes.filter((one) => why(one) !== "").map((one) => ({ path: one.path, why: why(one) })),
  };
}

/** Keep what is kept together; what came to be refused since it was listed is left too. */
export async function keepTogether(
  changes: readonly ChangeInfo[],
  accept: (group: readonly ChangeInfo[]) => Promise<void>,
): Promise<readonly Left[]> {
  let { together, left } = parted(changes);
  while (together.length > 0) {
    try {
      await accept(together);
      return left;
    } catch (error) {
      const refused = refusedPaths(error);
      const out = together.filter((one) => refused.includes(one.path));
      if (out.length === 0) {
        throw error;
      }
      const why = error instanceof Error ? error.message : String(error);
      left = [...left, ...out.map(({ path }) => ({ path, why }))];
      together = together.filter((one) => !out.includes(one));
    }
  }
  return left;
}

function refusedPaths(error: unknown): readonly unknown[] {
  if (!(error instanceof RpcError) || error.data === undefined || !NOT_TOGETHER.includes(error.data.code)) {
    return [];
  }
  const paths = (error.data as { readonly paths?: unknown }).paths;
  return Array.isArray(paths) ? paths : [];
}

/** What was left and why; empty where nothing was. */
export function leftWords(left: readonly Left[]): string {
  if (left.length === 0) {
    return "";
  }
  const named = left.slice(0, LEFT_NAMED_MAX).map(({ path, why }) => `${path}: ${why}`);
  const more = left.length > named.length ? [`${counted(left.length - named.length, "more file")}.`] : [];
  return `Not kept: ${[...named, ...more].join(" ")} Each is kept by its own button, if at all.`;
}

/** A refusal in the words of who pressed a button beside something older. */
export function sinceShown(error: unknown, changes: readonly Pick<ChangeInfo, "path">[]): unknown {
  if (!(error instanceof RpcError) || error.data?.code !== "change.superseded") {
    return error;
  }
  const [first] = changes;
  const what = changes.length === 1 && first !== undefined ? first.path : `One of ${counted(changes.length, "file")}`;
  return new Error(`${what} changed since it was shown; look again. Nothing was written.`);
}
