/**
 * What a session may use and do, in words.
 *
 * Purpose: the limits of tokens and the mode as the composer shows them, and as a user types them.
 * Invariant: functions of their arguments; a limit is what the daemon said it is.
 * Must never: show a limit as kept that the daemon does not keep.
 */

import type { SessionDetail } from "../../../protocol/typescript/wire.ts";
import type { Budget, Mode } from "./panel.ts";
import { grouped } from "./words.ts";

export const MODES: readonly { readonly mode: Mode; readonly label: string; readonly detail: string }[] = [
  { mode: "agent", label: "Agent", detail: "Works: reads, proposes changes, runs what policy or you allow." },
  { mode: "plan", label: "Plan", detail: "Looks and says what it would do. Nothing is changed, run or sent." },
];

export function modeLabel(mode: Mode): string {
  return MODES.find((one) => one.mode === mode)?.label ?? mode;
}

/** The limit of which the largest part is used; null where there is none. */
export function nearestBudget(detail: SessionDetail | null): Budget | null {
  const limits = [
    { whose: "turn", used: detail?.turnTokens ?? 0, limit: detail?.turnTokensMax ?? null },
    { whose: "session", used: (detail?.inputTokens ?? 0) + (detail?.outputTokens ?? 0), limit: detail?.sessionTokensMax ?? null },
  ] as const;
  const set = limits.flatMap(({ whose, used, limit }): Budget[] => (limit === null ? [] : [{ whose, used, limit }]));
  return set.sort((a, b) => b.used / b.limit - a.used / a.limit)[0] ?? null;
}

/** `12.4k`, `50k`, `850`. */
export function brief(count: number): string {
  return count < 1000 ? String(count) : count < 1e6 ? `${trimmed(count / 1000)}k` : `${trimmed(count / 1e6)}M`;
}

function trimmed(value: number): string {
  return value.toFixed(value < 100 ? 1 : 0).replace(/\.0$/, "");
}

/** What would let a session go on that a limit holds back: which limit, and by how much more. */
export interface Raise {
  readonly whose: Budget["whose"];
  readonly by: number;
}

/** The limit that has no room for the next request, and a step that makes room; null where none holds the session back. */
export function raiseOf(detail: SessionDetail | null): Raise | null {
  if (detail === null || detail.turnId !== null) {
    return null;
  }
  const next = Math.max(detail.nextTokens ?? 0, 1);
  const { turnTokensMax: turn = null, sessionTokensMax: session = null } = detail;
  if (session !== null && detail.inputTokens + detail.outputTokens + next > session) {
    return { whose: "session", by: step(session, detail.inputTokens + detail.outputTokens + next - session) };
  }
  return turn === null ? null : { whose: "turn", by: step(turn, next) };
}

/** Half as much again in a round number, and in any case what is needed. */
function step(limit: number, needed: number): number {
  const wanted = Math.max(limit / 2, needed);
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return Math.ceil(wanted / unit) * unit;
}

export function budgetWords({ whose, used, limit }: Budget): string {
  return `${grouped(used)} of ${grouped(limit)} tokens of this ${whose} used. A request that would pass the limit is not made.`;
}

/** Tokens as a user types them (`50000`, `50k`, `1.5M`); null for nothing, undefined for what is none. */
export function parseTokens(typed: string): number | null | undefined {
  const text = typed.trim().replace(/[, _]/g, "");
  if (text === "") {
    return null;
  }
  const found = /^(\d+(?:\.\d+)?)([kKmM]?)$/.exec(text);
  const count = found === null ? Number.NaN : Math.round(Number(found[1]) * ({ "": 1, k: 1e3, m: 1e6 }[(found[2] ?? "").toLowerCase()] ?? 1));
  return Number.isSafeInteger(count) && count >= 1 ? count : undefined;
}
