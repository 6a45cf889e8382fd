/**
 * The report tab: the trace of a turn, or what the doctor found.
 *
 * Purpose: draw one answer of the daemon, whole.
 * Invariant: times are those of the record; a probe shows its evidence.
 * Must never: fetch, or keep an older report beside a newer one.
 */

import { doctorWords, share, timeParts } from "../common/report.ts";
import type { DoctorReport, FromReport, ReportData } from "../common/report.ts";
import type { ProbeInfo, TraceLine } from "../../../protocol/typescript/wire.ts";
import { lasting } from "../common/words.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { icon } from "./icons.ts";

declare function acquireVsCodeApi(): { postMessage(message: FromReport): void };

const editor = acquireVsCodeApi();
const LINES_MAX = 400;
const TICKS = 4;

const body = h("main", { class: "doc" }, h("p", { class: "q" }, "Looking"));
document.body.append(body);
window.addEventListener("message", (event: MessageEvent<ReportData>) => {
  const { data } = event;
  fill(body, ...(data.kind === "trace" ? traceView(data) : doctorView(data.report)));
});
editor.postMessage({ type: "ready" });

function traceView(data: Extract<ReportData, { readonly kind: "trace" }>): readonly HTMLElement[] {
  const { turn } = data;
  const parts = timeParts(turn);
  const whole = turn.durationUs;
  const first = turn.firstActionUs === null ? "" : ` First action after ${lasting(turn.firstActionUs)}.`;
  const about = `${data.title}${data.number === "" ? "" : `, turn ${data.number}`}, goal ${turn.goalRevision}, ${turn.end}.${first}`;
  const bar = h("div", { class: "stack", role: "img", label: "Where the time went" });
  const legend = h("div", { class: "legend" });
  for (const part of parts) {
    const piece = h("i", { class: `c-${part.key}`, title: `${part.words} ${lasting(part.micros)}` });
    piece.style.flexGrow = String(part.micros);
    bar.append(piece);
    legend.append(
      h(
        "div",
        { class: "leg" },
        h("i", { class: `sw c-${part.key}` }),
        h("span", { class: "grow" }, part.words),
        h("span", { class: "num" }, lasting(part.micros)),
        h("span", { class: "num q pc" }, share(part.micros, whole)),
      ),
    );
  }
  const missing =
    data.notRecorded.length > 0 ? [h("p", { class: "q xs" }, `Not recorded yet: ${data.notRecorded.join(", ").replaceAll("_", " ")}.`)] : [];
  const verify = button("linkish", () => editor.postMessage({ type: "verify" }), {}, data.audit === null ? "Verify the audit chain" : "Verify again");
  const audit = h(
    "div",
    { class: "row foot" },
    data.audit !== null && icon(data.audit.ok ? "check" : "errc", data.audit.ok ? "ok" : "bad"),
    h("span", { class: "grow" }, data.audit?.words ?? ""),
    verify,
  );
  return [
    h("h2", {}, lasting(whole)),
    h("p", { class: "q" }, revealed(about)),
    h("h3", {}, "Where the time went"),
    bar,
    legend,
    ...missing,
    h("h3", {}, "Timeline"),
    timeline(turn.lines, whole),
    audit,
  ];
}

function timeline(lines: readonly TraceLine[], whole: number): HTMLElement {
  const axis = h("div", { class: "wf axis" });
  for (let tick = 0; tick <= TICKS; tick += 1) {
    const mark = h("span", { class: "xs q" }, tick === 0 ? "0" : lasting((whole * tick) / TICKS));
    mark.style.left = `${(100 * tick) / TICKS}%`;
    axis.append(mark);
  }
  const rows = lines.slice(0, LINES_MAX).map((line) => {
    const place = h("div", { class: "wf" });
    const piece = h("i", { class: `k-${line.kind}`, title: line.outcome });
    const end = line.lastsUs ?? Math.max(0, whole - line.beginsUs);
    piece.style.left = `${(100 * line.beginsUs) / Math.max(1, whole)}%`;
    piece.style.width = `${(100 * end) / Math.max(1, whole)}%`;
    place.append(piece);
    return h(
      "div",
      { class: "tl" },
      h("span", { class: "ell", title: line.title }, revealed(line.title)),
      place,
      h("span", { class: "num q" }, line.lastsUs === null ? "not ended" : lasting(line.lastsUs)),
    );
  });
  return h("div", { class: "timeline" }, h("div", { class: "tl" }, h("span"), axis, h("span")), ...rows);
}

const VERDICTS: Readonly<Record<ProbeInfo["verdict"], readonly [string, string, string]>> = {
  holds: ["check", "ok", "holds"],
  does_not_hold: ["errc", "bad", "does not hold"],
  not_claimed: ["warnt", "warn", "not claimed"],
};

function doctorView(report: DoctorReport): readonly HTMLElement[] {
  const again = button("btn", () => editor.postMessage({ type: "again" }), {}, "Run again");
  const rungs = report.rungs.map((rung) =>
    h(
      "tr",
      {},
      h("td", {}, rung.name),
      h("td", { class: "num" }, `${rung.strength} of 4`),
      h(
        "td",
        {},
        revealed(rung.available ? `Available for ${rung.trustLevels.join(", ")}` : `Refused: ${rung.reason}`),
        !rung.available && rung.fix !== "" && fix(rung.fix),
      ),
    ),
  );
  const probes = report.probes.map((probe) => {
    const [sign, tone, words] = VERDICTS[probe.verdict];
    const shown = h(
      "tr",
      {},
      h("td", { class: "sign" }, icon(sign, tone, words)),
      h("td", {}, probe.name.replaceAll("_", " ")),
      h("td", { class: "q" }, revealed(probe.evidence), probe.verdict !== "holds" && probe.fix !== "" && fix(probe.fix)),
    );
    return shown;
  });
  return [
    h("div", { class: "row" }, h("h2", { class: "grow" }, `${report.sandbox}: ${doctorWords(report.probes)}`), again),
    h("p", { class: "q" }, `Probed from inside a real sandbox on this machine, in ${lasting(report.tookMs * 1000)}.`),
    h("h3", {}, "Rungs on this machine"),
    h("table", { class: "tbl" }, h("tbody", {}, ...rungs)),
    h("h3", {}, "Probes"),
    h("table", { class: "tbl probes" }, h("tbody", {}, ...probes)),
  ];
}

function fix(words: string): HTMLElement {
  return h(
    "div",
    { class: "fix" },
    "Fix: ",
    h("code", {}, revealed(words)),
    " ",
    button("linkish", () => editor.postMessage({ type: "copy", text: words }), {}, "Copy"),
  );
}
