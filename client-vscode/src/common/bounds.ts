/**
 * What a session may use and do, in words.
 *
 * Purpose: the limits of tokens and money and the mode as the composer shows them, and as a user types them.
 * Invariant: functions of their arguments; a limit is what the daemon said it is; money is whole billionths of a US dollar.
 * Must never: show a limit as kept that the daemon does not keep, or take what is no amount for no limit.
 */

import type { SessionBudgetParams, SessionDetail } from "../../../protocol/typescript/wire.ts";
import type { Budget, Mode } from "./panel.ts";
import type { Rpc } from "./rpc.ts";
import { grouped } from "./words.ts";

export const MODES: readonly { readonly mode: Mode; readonly label: string; readonly detail: string }[] = [
  { mode: "agent", label: "Agent", detail: "Works: reads, proposes changes, runs what policy or you allow." },
  { mode: "plan", label: "Plan", detail: "Looks and says what it would do. Nothing is changed, run or sent." },
];

/** The most that a limit of money may be, as the daemon has it. */
const NANO_USD_MAX = 1e15;

export function modeLabel(mode: Mode): string {
  return MODES.find((one) => one.mode === mode)?.label ?? mode;
}

/** One of the four limits of a session: what it counts, and whose it is. */
export interface Limit extends Budget {
  /** Its name in what the daemon is told. */
  readonly name: "turnTokens" | "sessionTokens" | "turnNanoUsd" | "sessionNanoUsd";
  /** What has to be left for the next request; 0 where that is not known. */
  readonly next: number;
  /** It may be what ended the newest turn. */
  readonly reached: boolean;
}

/** All limits that are set. What a turn used while none runs is what the newest one used. */
export function limitsOf(detail: SessionDetail | null): readonly Limit[] {
  if (detail === null) {
    return [];
  }
  const next = { tokens: Math.max(detail.nextTokens ?? 0, 1), usd: detail.nextNanoUsd ?? 0 };
  const running = detail.turnId !== null;
  const all = [
    {
      name: "turnTokens",
      unit: "tokens",
      whose: "turn",
      running,
      used: detail.turnTokens ?? 0,
      uncounted: detail.turnUncountedTokens ?? 0,
      limit: detail.turnTokensMax ?? null,
    },
    {
      name: "sessionTokens",
      unit: "tokens",
      whose: "session",
      running,
      used: detail.inputTokens + detail.outputTokens,
      uncounted: detail.uncountedTokens ?? 0,
      limit: detail.sessionTokensMax ?? null,
    },
    { name: "turnNanoUsd", unit: "usd", whose: "turn", running, used: detail.turnNanoUsd ?? 0, uncounted: 0, limit: detail.turnNanoUsdMax ?? null },
    {
      name: "sessionNanoUsd",
      unit: "usd",
      whose: "session",
      running,
      used: detail.sessionNanoUsd ?? 0,
      uncounted: 0,
      limit: detail.sessionNanoUsdMax ?? null,
    },
  ] as const;
  return all.flatMap((one): Limit[] => {
    if (one.limit === null) {
      return [];
    }
    const full = one.used + next[one.unit] > one.limit;
    const reached = full && (one.whose === "session" || (detail.limitReached ?? false));
    return [{ ...one, limit: one.limit, next: next[one.unit], reached, ahead: one.whose === "turn" && !running && !reached, words: "" }];
  });
}

/** The limit of which the largest part is used; null where there is none. */
export function nearestBudget(detail: SessionDetail | null): Budget | null {
  const share = (one: Limit): number => (one.ahead ? 0 : one.used / one.limit);
  const limits = [...limitsOf(detail)].sort((a, b) => share(b) - share(a));
  const [nearest] = limits;
  if (nearest === undefined) {
    return null;
  }
  const { whose, unit, used, limit, running, ahead, uncounted } = nearest;
  const words = limits.map(budgetWords).join("\n");
  return { whose, unit, used, limit, running, ahead, uncounted, words };
}

/** `12.4k`, `50k`, `850`. */
export function brief(count: number): string {
  return count < 1000 ? String(count) : count < 1e6 ? `${trimmed(count / 1000)}k` : `${trimmed(count / 1e6)}M`;
}

function trimmed(value: number): string {
  return value.toFixed(value < 100 ? 1 : 0).replace(/\.0$/, "");
}

/** `$0.42`; four digits behind the point below a dollar where cents do not tell it; never rounded to nothing. */
export function usd(nanoUsd: number): string {
  const tenThousandths = Math.round(nanoUsd / 1e5);
  if (tenThousandths === 0 && nanoUsd > 0) {
    return "<$0.0001";
  }
  const [whole, part] = [Math.floor(tenThousandths / 1e4), tenThousandths % 1e4];
  const cents = whole > 0 || part % 100 === 0;
  return cents ? `$${grouped(whole)}.${String(Math.floor(part / 100)).padStart(2, "0")}` : `$${whole}.${String(part).padStart(4, "0")}`;
}

/** An amount of a limit, in its unit. */
export function amount(unit: Budget["unit"], count: number): string {
  return unit === "usd" ? usd(count) : brief(count);
}

/** The meter's words: `$0.42 of $2.00`, `about 12.4k of 20k`; between turns what the next turn may use: `20k a turn`. */
export function budgetBrief({ unit, used, limit, ahead, uncounted }: Budget): string {
  return ahead ? `${amount(unit, limit)} a turn` : `${uncounted > 0 ? "about " : ""}${amount(unit, used)} of ${amount(unit, limit)}`;
}

/** What would let a session go on that a limit holds back: which limit, and by how much more. */
export interface Raise {
  readonly name: Limit["name"];
  readonly unit: Budget["unit"];
  readonly by: number;
}

/** The limit that has no room for the next request, and a step that makes room; null where none holds the session back. */
export function raiseOf(detail: SessionDetail | null): Raise | null {
  if (detail === null || detail.turnId !== null) {
    return null;
  }
  const reached = limitsOf(detail).filter((one) => one.reached);
  const found = reached.find((one) => one.whose === "session") ?? reached[0];
  if (found === undefined) {
    return null;
  }
  const needed = found.whose === "session" ? found.used + found.next - found.limit : found.next;
  return { name: found.name, unit: found.unit, by: step(found.limit, needed) };
}

/** `Add $1.00`, `Add 10k tokens`. */
export function raiseWords({ unit, by }: Raise): string {
  return unit === "usd" ? `Add ${usd(by)}` : `Add ${brief(by)} tokens`;
}

/** Half as much again in a round number, and in any case what is needed. */
function step(limit: number, needed: number): number {
  const wanted = Math.max(limit / 2, needed);
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return Math.ceil(wanted / unit) * unit;
}

function budgetWords(one: Limit): string {
  const kept = "A request that would pass the limit is not made.";
  if (one.ahead) {
    return `${one.unit === "usd" ? usd(one.limit) : `${grouped(one.limit)} tokens`} for the next turn. ${kept}`;
  }
  const part = one.unit === "usd" ? `${usd(one.used)} of ${usd(one.limit)}` : `${grouped(one.used)} of ${grouped(one.limit)} tokens`;
  const whose = `${one.running || one.whose === "session" ? "this" : "the last"} ${one.whose}`;
  const [about, which] = one.uncounted > 0 ? ["About ", ` About ${grouped(one.uncounted)} are of requests that ended without a count.`] : ["", ""];
  return `${about}${part} of ${whose} used.${which} ${kept}`;
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

/** Dollars as a user types them (`2`, `$0.50`), exactly; null for nothing, undefined for what is no amount. */
export function parseUsd(typed: string): number | null | undefined {
  const text = typed.trim();
  if (text === "") {
    return null;
  }
  const found = /^\$?\s*(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  const nanoUsd = found === null ? 0 : Number(found[1]) * 1e9 + Number((found[2] ?? "").padEnd(9, "0"));
  return nanoUsd >= 1 && nanoUsd <= NANO_USD_MAX ? nanoUsd : undefined;
}

type SettingName = "turnTokens" | "sessionTokens" | "turnUsd" | "sessionUsd";

/** What `session/budget` takes of limits. */
export type Limits = Pick<SessionBudgetParams, "turnTokens" | "sessionTokens" | "money">;

/** The limits in force with one of them changed; those of money are told only where one of them changes. */
export function limitsWith(detail: SessionDetail, name: Limit["name"], value: number | null): Limits {
  const tokens = { turnTokens: detail.turnTokensMax ?? null, sessionTokens: detail.sessionTokensMax ?? null };
  const money = { turnNanoUsd: detail.turnNanoUsdMax ?? null, sessionNanoUsd: detail.sessionNanoUsdMax ?? null };
  return name in tokens ? { ...tokens, [name]: value } : { ...tokens, money: { ...money, [name]: value } };
}

/**
 * Limits of a new session as the user's settings have them; null where they have none. Zero is none.
 *
 * Throws where a setting is no amount: a session without the limit that was meant must not begin.
 */
export function startLimits(settings: Readonly<Record<SettingName, unknown>>): Limits | null {
  const read = (name: SettingName, parse: (typed: string) => number | null | undefined): number | null => {
    const given = settings[name] ?? 0;
    const value = given === 0 ? null : typeof given === "number" ? parse(String(given)) : undefined;
    if (value === undefined) {
      throw new Error(`The setting gloveport.${name} is no ${parse === parseUsd ? "amount of US dollars" : "number of tokens"}.`);
    }
    return value;
  };
  const tokens = { turnTokens: read("turnTokens", parseTokens), sessionTokens: read("sessionTokens", parseTokens) };
  const money = { turnNanoUsd: read("turnUsd", parseUsd), sessionNanoUsd: read("sessionUsd", parseUsd) };
  const inMoney = money.turnNanoUsd !== null || money.sessionNanoUsd !== null;
  if (tokens.turnTokens === null && tokens.sessionTokens === null && !inMoney) {
    return null;
  }
  return inMoney ? { ...tokens, money } : tokens;
}

/** Set the limits of the settings in a session that was just begun; one that can't have them is deleted again. */
export async function beginWithin(
  connection: Pick<Rpc, "call">,
  settings: Parameters<typeof startLimits>[0],
  ofSession: () => { readonly clientRequestId: string; readonly sessionId: string },
): Promise<void> {
  try {
    const limits = startLimits(settings);
    if (limits !== null) {
      await connection.call("session/budget", { ...ofSession(), ...limits });
    }
  } catch (error) {
    await connection.call("session/delete", ofSession());
    throw error;
  }
}
