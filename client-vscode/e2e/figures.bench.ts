/** Figures of the client: `npm run bench`. The panel alone in a browser, then the whole in a window. Nothing is asserted but that it works. */

import { readFileSync, readdirSync, statSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { afterAll, test } from "vitest";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { Editor } from "./kit/editor.ts";
import { CLIENT, Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { scene } from "./kit/script.ts";

const ITEMS = 10_000;
const DELTAS_PER_S = 100;
const SECONDS = 8;
const told: string[] = [];
const tell = (name: string, value: string): void => void told.push(`${name.padEnd(58)} ${value}`);
afterAll(() => console.log(`\n${told.join("\n")}\n`));

/** What a long session holds, in the mix that a real one has. */
function items(): readonly ViewItem[] {
  return Array.from({ length: ITEMS }, (_, at) => {
    const turn = Math.floor(at / 10);
    const shapes: readonly ViewItem[] = [
      { id: `message/${at}`, kind: "message.user", fields: { text: `Message ${at}: mend the \`median\` of this.`, state: "delivered" } },
      { id: `turn/${turn}`, kind: "turn", fields: { state: "completed", goalRevision: 1 } },
      {
        id: `answer/${at}`,
        kind: "message.assistant",
        fields: { text: `Answer ${at} with **bold** and \`code\`.\n\n- one\n- two\n`, state: "done" },
      },
      {
        id: `tool/${at}`,
        kind: "tool",
        fields: { tool: "run_command", arguments: '{"argv":["pytest","-q"]}', state: "ok", durationUs: 400_000, output: "13 passed in 1.02s\n" },
      },
    ];
    return shapes[at % 10 < 2 ? at % 10 : 2 + (at % 2)] as ViewItem;
  });
}

const percentile = (all: readonly number[], part: number): string => ([...all].sort((a, b) => a - b)[Math.floor(all.length * part)] ?? 0).toFixed(1);

interface Seen {
  readonly frames: readonly number[];
  readonly loadMs: number;
  readonly nodes: number;
  readonly heap: number;
}

test("the panel alone: ten thousand items, a hundred deltas a second", async () => {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"],
  });
  const page = await browser.newPage({ viewport: { width: 380, height: 900 } });
  await page.setContent(`<style>${readFileSync(join(CLIENT, "media/panel.css"), "utf8")}</style>`);
  await page.evaluate("window.acquireVsCodeApi = () => ({ postMessage() {}, getState() {}, setState() {} })");
  await page.addScriptTag({ path: join(CLIENT, "dist/panel.js") });
  const seen = (await page.evaluate(
    async ({ held, seconds, rate }) => {
      const post = (data: unknown): boolean => window.dispatchEvent(new MessageEvent("message", { data }));
      const frame = (): Promise<number> => new Promise((resolve) => requestAnimationFrame(resolve));
      const began = performance.now();
      post({ type: "load", sessionId: "s", items: held, first: 0, seq: 1 });
      await frame();
      await frame();
      const loadMs = performance.now() - began;
      post({
        type: "events",
        sessionId: "s",
        events: [
          { seq: 2, at: 0, ops: [{ op: "upsert", item: "answer/live", kind: "message.assistant", fields: { text: "", state: "streaming" } }] },
        ],
      });
      const frames: number[] = [];
      let [seq, offset, last] = [3, 0, performance.now()];
      const timer = setInterval(() => {
        const text = seq % 12 === 0 ? "word.\n\n" : "some words ";
        post({ type: "events", sessionId: "s", events: [{ seq, at: 0, ops: [{ op: "append", item: "answer/live", field: "text", offset, text }] }] });
        seq += 1;
        offset += text.length;
      }, 1000 / rate);
      while (performance.now() - began < seconds * 1000) {
        await frame();
        frames.push(performance.now() - last);
        last = performance.now();
      }
      clearInterval(timer);
      const { memory } = performance as unknown as { readonly memory: { readonly usedJSHeapSize: number } };
      return { frames, loadMs, nodes: document.querySelectorAll("*").length, heap: memory.usedJSHeapSize };
    },
    { held: items(), seconds: SECONDS, rate: DELTAS_PER_S },
  )) as Seen;
  await browser.close();
  tell("10,000 items: from load to painted", `${seen.loadMs.toFixed(0)} ms`);
  tell(
    "10,000 items, 100 deltas/s: frame p50 / p95 / p99",
    `${percentile(seen.frames, 0.5)} / ${percentile(seen.frames, 0.95)} / ${percentile(seen.frames, 0.99)} ms`,
  );
  tell("10,000 items: elements in the page", String(seen.nodes));
  tell("10,000 items: script memory of the webview", `${(seen.heap / 1e6).toFixed(1)} MB`);
});

test("the whole in a window", async () => {
  const home = new Home({ name: "bench", steps: scene("stream", { text: "word ".repeat(400), chunk_chars: 5, delay_ms: 10 }) });
  const editor = await Editor.start(home);
  try {
    const window = await editor.open(home.workspace("w", { "a.txt": "one\n" }));
    await window.openPanel();
    await window.say("stream", "Trusted");
    await window.panel.getByText(/^In sync/).waitFor();
    await window.panel.locator(".say.live").waitFor({ state: "detached" });
    const log = editor.extensionLog();
    tell("activate()", `${/activated in ([\d.]+) ms/.exec(log)?.[1] ?? "?"} ms`);
    await window.command("Gloveport: Show Log");
    const figures = await until("the figures in the log", () => /painted: (.*)/.exec(editor.extensionLog())?.[1]); // it is written a moment later
    tell("delta in the journal to painted", figures);
    tell("extension host (all extensions), proportional memory", `${hostMemory()} MB`);
  } finally {
    await editor.stop();
    await home.end();
  }
  const vsix = readdirSync(CLIENT).find((name) => name.endsWith(".vsix")) ?? "";
  tell("vsix", `${(statSync(join(CLIENT, vsix)).size / 1024).toFixed(0)} KiB`);
});

function hostMemory(): string {
  const rows = execFileSync("ps", ["-eo", "pid,args"], { encoding: "utf8" }).split("\n");
  const pids = rows.filter((row) => row.includes("--type=extensionHost")).map((row) => Number.parseInt(row, 10));
  const sizes = pids.map((pid) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0));
  return (Math.max(0, ...sizes) / 1024).toFixed(0);
}
