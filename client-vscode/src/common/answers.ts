/**
 * Answers of the daemon as people read them.
 *
 * Purpose: what it says of itself, of its measures and of a command that nobody ran, in lines.
 * Invariant: what is not known is said so; what the daemon tells of its own accord stands first.
 * Must never: leave out what the daemon tells.
 */

import type { DaemonStatusResult, MetricsShowResult, PolicyExplainResult } from "../../../protocol/typescript/wire.ts";
import { capital, counted, lasting, sized } from "./words.ts";

/** Who serves here: what is the matter, if anything is, then how it stands. */
export function statusLines(found: DaemonStatusResult): readonly string[] {
  const { data } = found;
  const told = [...data.told, ...(found.sandboxesTold ?? [])];
  const held = [
    data.sessions === null ? "Sessions: not known now" : counted(data.sessions, "session"),
    `${data.eventsBytes === null ? "events: not known now" : `events ${sized(data.eventsBytes)}`}, outputs and files ${sized(data.blobsBytes)}`,
  ];
  return [
    ...told,
    ...(told.length === 0 ? ["Nothing is the matter."] : []),
    "",
    `Process ${found.pid}, version ${found.programVersion}, protocol ${found.protocolVersion}`,
    `${counted(found.clients, "client")}, ${counted(found.runningTurns, "running turn")}`,
    held.join("; "),
    `What is done is ${data.accepting ? "saved" : "not saved"}; the reserve for a full disk is ${data.hasReserve ? "kept" : "spent"}`,
    `Data: ${found.dataDir}`,
    `Audit log: ${found.auditPath}`,
  ];
}

/** Rates and times of the newest sessions. */
export function measureLines(found: MetricsShowResult): readonly string[] {
  const turns = found.counts.find((one) => one.name === "turns")?.count ?? 0;
  const rates = found.rates.map(({ name, part, whole, percent }) => {
    const share = percent === null ? "–" : percent === 0 && part > 0 ? "<1 %" : `${percent} %`;
    return `${name.padEnd(28)} ${share.padStart(6)}  (${part} of ${whole})`;
  });
  const time = (micros: number | null): string => (micros === null ? "–" : lasting(micros)).padStart(12);
  const times = [...found.durations, ...found.tools].map(
    (one) => `${one.name.padEnd(28)} ${String(one.count).padStart(6)}${time(one.p50Us)}${time(one.p95Us)}${time(one.p99Us)}${time(one.highestUs)}`,
  );
  const head = `${"time".padEnd(28)} ${"count".padStart(6)}${["p50", "p95", "p99", "highest"].map((one) => one.padStart(12)).join("")}`;
  return [`${counted(found.sessions, "session")}, ${counted(turns, "turn")}`, "", ...rates, "", ...(found.suggestions ?? []), head, ...times];
}

/** What would be decided about a command, and why. */
export function explainLines(found: PolicyExplainResult): readonly string[] {
  const lines = [
    ...found.factors.map((one) => `${capital(one.name.replaceAll("_", " "))}: ${one.level}, ${one.words}`),
    ...found.findings,
    ...found.doubts.map((one) => `Not taken for granted: ${one}`),
    found.hint,
    "Nothing was run.",
  ];
  return [...new Set(lines.filter((one) => one !== ""))];
}

const WORD = /"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\\]|\\.)+)|(\s+)/gs;

/** The words of a command line as it is typed, with quotes; null where a quote is open. */
export function argvOf(line: string): readonly string[] | null {
  const argv: string[] = [];
  let open = false;
  let end = 0;
  for (const found of line.matchAll(WORD)) {
    if (found.index !== end) {
      return null;
    }
    end += found[0].length;
    if (found[4] !== undefined) {
      open = false;
      continue;
    }
    const part = found[2] ?? (found[1] ?? found[3] ?? "").replace(/\\(.)/gs, "$1");
    argv.push(open ? `${argv.pop() ?? ""}${part}` : part);
    open = true;
  }
  return end === line.length ? argv : null;
}
