/** What the daemon answers, as people read it; a command line as it is typed. */

import { expect, test } from "vitest";
import type { DaemonStatusResult, MetricsShowResult, PolicyExplainResult } from "../../protocol/typescript/wire.ts";
import { argvOf, explainLines, measureLines, statusLines } from "../src/common/answers.ts";

const STATUS: DaemonStatusResult = {
  pid: 7,
  programVersion: "0.1.0",
  protocolVersion: 1,
  generation: 3,
  startedAt: 0,
  clients: 1,
  runningTurns: 0,
  dataDir: "/d",
  journalPath: "/d/journal.db",
  auditPath: "/d/audit.jsonl",
  data: { sessions: null, eventsBytes: null, blobsBytes: 2048, logBytes: 0, accepting: false, hasReserve: false, told: ["The disk is full."] },
  sandboxesTold: ["docker does not work here."],
};

test("what is the matter stands first; what is not known is said so, and a well daemon says that", () => {
  expect(statusLines(STATUS).slice(0, 2)).toEqual(["The disk is full.", "docker does not work here."]);
  expect(statusLines(STATUS).join("\n")).toMatch(/Sessions: not known now; events: not known now, outputs and files 2.0 KiB\n.*not saved.*spent/);
  const well = statusLines({ ...STATUS, sandboxesTold: [], data: { ...STATUS.data, accepting: true, hasReserve: true, sessions: 2, told: [] } });
  expect(well[0]).toBe("Nothing is the matter.");
  expect(well.join("\n")).toMatch(/2 sessions.*\n.*is saved.*is kept/);
});

test("a rate without a whole is no rate, a small one is not nothing, and suggestions are told", () => {
  const found: MetricsShowResult = {
    sessions: 2,
    counts: [{ name: "turns", count: 5 }],
    rates: [
      { name: "approved", part: 0, whole: 0, percent: null },
      { name: "denied", part: 1, whole: 500, percent: 0 },
    ],
    durations: [{ name: "first token", count: 2, p50Us: 400_000, p95Us: null, p99Us: null, highestUs: 12_000_000 }],
    tools: [],
    suggestions: ["A rule asks often and is always allowed."],
  };
  const text = measureLines(found).join("\n");
  expect(text).toMatch(/^2 sessions, 5 turns/);
  expect(text).toMatch(/approved +– {2}\(0 of 0\)\ndenied +<1 % {2}\(1 of 500\)/);
  expect(text).toMatch(/A rule asks often/);
  expect(text).toMatch(/first token +2 +0.4 s +– +– +12 s/);
});

test("why a command would be decided so: each line once, and that nothing was run", () => {
  const found = {
    factors: [{ name: "effect_type", level: "high", words: "it installs" }],
    findings: ["builtin:install: ask: it installs"],
    doubts: ["what pip runs"],
    hint: "You would be asked.",
  } as unknown as PolicyExplainResult;
  expect(explainLines({ ...found, findings: [...found.findings, ...found.findings] })).toEqual([
    "Effect type: high, it installs",
    "builtin:install: ask: it installs",
    "Not taken for granted: what pip runs",
    "You would be asked.",
    "Nothing was run.",
  ]);
});

test.each([
  ["pip install x", ["pip", "install", "x"]],
  ['  a  \'b c\'d "e \\" f" g\\ h ', ["a", "b cd", 'e " f', "g h"]],
  ["", []],
  ["echo ''", ["echo", ""]],
  ["a 'b", null],
  ["a \\", null],
])("%s", (line, argv) => {
  expect(argvOf(line)).toEqual(argv);
});
