/**
 * How long turns took and what they cost.
 *
 * Purpose: the two figures at a turn's head, from its events, the list of costs and the trace, whichever knows them.
 * Invariant: what is not known is null and is not shown; a duration is that of an ended turn.
 * Must never: guess a figure, or keep those of more turns than are asked for.
 */

import type { TraceShowResult, UsageShowResult, WireEvent } from "../../../protocol/typescript/wire.ts";
import { dollars, lasting } from "./words.ts";

export interface TurnFact {
  readonly tookUs: number | null;
  readonly costNanoUsd: number | null;
}

export type TurnFacts = Readonly<Record<string, TurnFact>>;

/** Of so many of the newest turns the figures are known. */
export const TURNS_TOLD = 50;

const ENDED = /^Turn(Completed|Failed|Cancelled)$/;
const NOTHING: TurnFact = { tookUs: null, costNanoUsd: null };

/** `38 s · $0.05`; empty where neither is known. */
export function turnFigures(fact: TurnFact | undefined): string {
  const took = fact?.tookUs == null ? "" : lasting(fact.tookUs);
  const cost = fact?.costNanoUsd == null ? "" : dollars(fact.costNanoUsd);
  return [took, cost].filter((one) => one !== "").join(" · ");
}

export class TurnTimes {
  private readonly began = new Map<string, number>();
  private known = new Map<string, TurnFact>();

  get facts(): TurnFacts {
    return Object.fromEntries(this.known);
  }

  private note(turn: string, fact: Partial<TurnFact>): void {
    this.known.set(turn, { ...(this.known.get(turn) ?? NOTHING), ...fact });
    if (this.known.size > TURNS_TOLD) {
      const [oldest] = this.known.keys();
      this.known.delete(oldest ?? "");
    }
  }

  /** What events tell of when turns begin and end. */
  take(events: readonly WireEvent[]): void {
    for (const { type, at, ops } of events) {
      const item = ops.map((op) => op["item"]).find((one): one is string => typeof one === "string" && one.startsWith("turn/"));
      const turn = item?.slice("turn/".length);
      if (turn !== undefined && type === "TurnStarted") {
        this.began.set(turn, at);
      } else if (turn !== undefined && ENDED.test(type)) {
        const began = this.began.get(turn);
        this.began.delete(turn);
        if (began !== undefined) {
          this.note(turn, { tookUs: Math.max(0, at - began) });
        }
      }
    }
  }

  takeCosts(usage: Pick<UsageShowResult, "byTurn">): void {
    usage.byTurn.slice(-TURNS_TOLD).forEach(({ name, sums }) => this.note(name, { costNanoUsd: sums.costNanoUsd }));
  }

  takeTrace(trace: Pick<TraceShowResult, "turns">): void {
    trace.turns.filter((one) => one.end !== "running").forEach((one) => this.note(one.turnId, { tookUs: one.durationUs }));
  }
}
