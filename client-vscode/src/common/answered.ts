/**
 * How a card ended.
 *
 * Purpose: one line of an answered card: what was said, by whom, when, and where in the log.
 * Invariant: a part that the record does not hold is left out.
 * Must never: say that something did not run where the record does not say so, or tell this window's answer for another's.
 */

import { SCOPES, SCOPE_WORDS } from "./cardModel.ts";
import { BEFOREHAND, CLIENT, PEOPLE, num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { capital, grouped } from "./words.ts";

export interface AnsweredLine {
  readonly icon: string;
  readonly tone: string;
  readonly words: string;
  /** Somebody said it: what was asked about follows as what was answered. */
  readonly isAnswer: boolean;
  /** Who, when and seq, as far as the record has them. */
  readonly meta: string;
}

const ENDS: Readonly<Record<string, readonly [string, string, string]>> = {
  allowed: ["check", "ok", "Allowed"],
  denied: ["block", "q", "Denied"],
  expired: ["clock", "q", "Expired. Nothing ran"],
  superseded: ["history", "q", "Asked again: something changed"],
  withdrawn: ["history", "q", "Not needed any more"],
};
/** Ends that no person chose, by what the record names in their place. */
const CAUSES: Readonly<Record<string, string>> = {
  "superseded steering": "The goal changed. Nothing ran",
  [`denied ${BEFOREHAND}`]: "Denied by an answer given beforehand. Nobody was asked",
  "withdrawn stop": "Stopped. Nothing ran",
  "withdrawn recovery": "Taken back after a restart",
  "superseded recovery": "Asked again after a restart: something changed",
};
const NOBODY = new Set(["stop", "steering", "recovery", BEFOREHAND]);

/** `elsewhere`: it waited in this window, and another one answered. `clock`: how a moment (UTC microseconds) is said. */
export function answeredLine(fields: Fields, elsewhere: boolean, clock: (micros: number) => string): AnsweredLine {
  const state = str(fields, "state");
  const by = str(fields, "by");
  const [icon, tone, end] = ENDS[state] ?? ["info", "q", capital(state)];
  const scope = state === "allowed" ? SCOPES.find((one) => one === str(fields, "scope")) : undefined;
  const scoped = scope === undefined ? "" : SCOPE_WORDS[scope].toLowerCase();
  const isAnswer = state === "allowed" || state === "denied";
  const lasting = scope === "once" || scope === undefined ? "" : `, ${scoped}`;
  const words = elsewhere && isAnswer ? `${end} in another window${lasting}` : (CAUSES[`${state} ${by}`] ?? [end, scoped].filter(Boolean).join(" "));
  const [at, seq] = [num(fields, "answeredAt") ?? 0, num(fields, "answeredSeq")];
  const meta = [NOBODY.has(by) ? "" : (PEOPLE[by] ?? by), at > 0 ? clock(at) : "", seq === null ? "" : `#${grouped(seq)}`];
  return { icon, tone, words, isAnswer, meta: meta.filter((one) => one !== "").join(" · ") };
}

/** Which cards that waited here were answered by another window. What is not known for sure counts as this one's. */
export class Elsewhere {
  private readonly mine = new Set<string>();
  private readonly others = new Set<string>();

  /** This window answers a card: before the answer is sent. */
  answers(itemId: string): void {
    this.mine.add(itemId);
  }

  /** A card's fields change. `before`: as this window showed them. */
  sees(itemId: string, before: Fields | undefined, after: Fields): void {
    const waited = before !== undefined && str(before, "state") === "pending";
    if (waited && str(after, "state") !== "pending" && str(after, "by") === CLIENT && !this.mine.has(itemId)) {
      this.others.add(itemId);
    }
  }

  has(itemId: string): boolean {
    return this.others.has(itemId);
  }
}
