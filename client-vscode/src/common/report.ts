/**
 * Reports: where a turn's time went, and what the doctor found.
 *
 * Purpose: the models of the report tab, from the daemon's answers.
 * Invariant: parts are those of the record, in its order; what it does not hold is named as not recorded.
 * Must never: round a part away.
 */

import type { ProbeInfo, SandboxInfo, TraceParts, TraceTurn } from "../../../protocol/typescript/wire.ts";
import { counted } from "./words.ts";

export interface TimePart {
  readonly key: keyof TraceParts;
  readonly words: string;
  readonly micros: number;
}

const PARTS: readonly (readonly [keyof TraceParts, string])[] = [
  ["toolRunUs", "Tool run"],
  ["generationUs", "Generation"],
  ["firstTokenUs", "First token"],
  ["retryUs", "Retries"],
  ["approvalUs", "Waiting for you"],
  ["verificationUs", "Verification"],
  ["contextBuildUs", "Context build"],
  ["toolQueueUs", "Tool queue"],
  ["coldStartUs", "Cold start"],
  ["compactionUs", "Compaction"],
  ["awayUs", "Daemon away"],
  ["unaccountedUs", "Not accounted"],
];

/** The parts that took time, longest first. */
export function timeParts(turn: TraceTurn): readonly TimePart[] {
  return PARTS.map(([key, words]) => ({ key, words, micros: turn.parts[key] }))
    .filter((one) => one.micros > 0)
    .sort((a, b) => b.micros - a.micros);
}

/** `56 %`, and `<1 %` for what is there but small. */
export function share(micros: number, whole: number): string {
  if (whole <= 0) {
    return "";
  }
  const percent = Math.floor((100 * micros) / whole);
  return percent === 0 ? "<1 %" : `${percent} %`;
}

export interface DoctorReport {
  readonly sandbox: string;
  readonly probes: readonly ProbeInfo[];
  readonly rungs: readonly SandboxInfo[];
  readonly tookMs: number;
}

/** `15 passed, 1 weaker`. */
export function doctorWords(probes: readonly ProbeInfo[]): string {
  const count = (verdict: ProbeInfo["verdict"]): number => probes.filter((one) => one.verdict === verdict).length;
  const parts = [`${count("holds")} passed`];
  if (count("does_not_hold") > 0) {
    parts.push(`${count("does_not_hold")} failed`);
  }
  if (count("not_claimed") > 0) {
    parts.push(`${count("not_claimed")} weaker`);
  }
  return parts.join(", ");
}

/** The audit log's state in words. */
export function auditWords(ok: boolean, lines: number, firstBad: number | null): string {
  return ok ? `Audit chain verified, ${counted(lines, "line")}.` : `The audit chain breaks at line ${firstBad ?? "?"}.`;
}

export type ReportData =
  | {
      readonly kind: "trace";
      readonly title: string;
      readonly number: string;
      readonly turn: TraceTurn;
      readonly notRecorded: readonly string[];
      readonly audit: { readonly ok: boolean; readonly words: string } | null;
    }
  | { readonly kind: "doctor"; readonly report: DoctorReport };

export type FromReport =
  { readonly type: "ready" } | { readonly type: "again" } | { readonly type: "verify" } | { readonly type: "copy"; readonly text: string };
