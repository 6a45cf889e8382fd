/** How long turns took and what they cost, from whatever tells it. */

import { expect, test } from "vitest";
import type { WireEvent } from "../../protocol/typescript/wire.ts";
import { TURNS_TOLD, TurnTimes, turnFigures } from "../src/common/turnFacts.ts";

const event = (type: string, turn: string, at: number): WireEvent => ({
  stream: "session/s",
  epoch: 1,
  seq: 1,
  at,
  type,
  ops: [{ op: "upsert", item: `turn/${turn}`, kind: "turn", fields: {} }],
});
const sums = (costNanoUsd: number | null): never => ({ costNanoUsd }) as never;

test("a turn's head has what is known: its time once it has ended, its cost where it has one", () => {
  const times = new TurnTimes();
  times.take([event("TurnStarted", "a", 1_000_000), event("TurnStarted", "b", 50_000_000)]);
  expect(times.facts).toEqual({});
  times.take([event("TurnCompleted", "a", 39_000_000), event("TurnFailed", "unseen", 9)]);
  times.takeCosts({
    byTurn: [
      { name: "a", sums: sums(50_000_000) },
      { name: "b", sums: sums(null) },
    ],
  });
  expect([turnFigures(times.facts["a"]), turnFigures(times.facts["b"]), turnFigures(times.facts["c"])]).toEqual(["38 s · $0.05", "", ""]);
  const traced = (turnId: string, end: string): never => ({ turnId, end, durationUs: 400_000 }) as never;
  times.takeTrace({ turns: [traced("c", "completed"), traced("b", "running")] });
  expect([turnFigures(times.facts["c"]), turnFigures(times.facts["b"])]).toEqual(["0.4 s", ""]);
});

test("those of the newest turns alone are kept", () => {
  const times = new TurnTimes();
  for (let at = 0; at < TURNS_TOLD + 5; at += 1) {
    times.take([event("TurnStarted", `t${at}`, 0), event("TurnCancelled", `t${at}`, 5)]);
  }
  expect(Object.keys(times.facts)).toHaveLength(TURNS_TOLD);
  expect(times.facts["t0"]).toBeUndefined();
});
