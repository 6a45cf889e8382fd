/**
 * The panel's page alone in a browser.
 *
 * Purpose: give the panel what the extension would send it, and see what it draws, where the keys lead and what it asks for.
 * Invariant: script and style are those of this tree, made anew; what the panel sends is kept in its order.
 * Must never: answer for the extension, or draw anything itself.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import type { FreshPicture, FromPanel, PanelState, SessionPicture, ToPanel } from "../../src/common/panel.ts";
import { BROWSER_FLAGS } from "./given.ts";
import { CLIENT } from "./home.ts";
import { until } from "./processes.ts";

export const SESSION = "s";

const PICTURE: SessionPicture = {
  id: SESSION,
  title: "One session",
  root: "/w",
  phase: "idle",
  trust: "trusted",
  sandbox: "bubblewrap",
  model: "test",
  modelLabel: "Test",
  goal: 1,
  turnId: null,
  since: null,
  readOnly: false,
  ended: "",
  fault: "",
  inSync: true,
  seq: 1,
  queue: [],
  files: [],
  contextTokens: null,
  costNanoUsd: null,
  unpriced: 0,
  tokens: 0,
  mode: "agent",
  budget: null,
  raise: null,
  turns: {},
};
const STATE: PanelState = {
  link: { kind: "ready", words: "", actions: [] },
  trusted: true,
  folders: 1,
  sessions: [],
  session: PICTURE,
  fresh: { model: "test", modelLabel: "Test", mode: "agent", sandbox: "", noModelIn: "" },
  standing: "",
  mac: false,
};

/** A picture around a conversation, of which some is said. */
export function stateOf(picture: Partial<SessionPicture>): PanelState {
  return { ...STATE, session: { ...PICTURE, ...picture } };
}

async function script(): Promise<string> {
  const made = await build({ entryPoints: [join(CLIENT, "src/webview/main.ts")], bundle: true, write: false, format: "iife", logLevel: "error" });
  return made.outputFiles[0]?.text ?? "";
}

export class PanelPage {
  private seq = 1;
  readonly locator: Page["locator"];

  private constructor(
    readonly browser: Browser,
    readonly page: Page,
  ) {
    this.locator = page.locator.bind(page);
  }

  static async open(): Promise<PanelPage> {
    const code = await script();
    const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", headless: true, args: BROWSER_FLAGS });
    const page = await browser.newPage({ viewport: { width: 400, height: 900 } });
    const style = readFileSync(join(CLIENT, "media/panel.css"), "utf8");
    await page.setContent(`<!DOCTYPE html><html lang="en"><head><title>Gloveport</title><style>${style}</style></head><body></body></html>`);
    await page.evaluate("window.sent = []; window.acquireVsCodeApi = () => ({ postMessage(m) { sent.push(m); }, getState() {}, setState() {} })");
    await page.addScriptTag({ content: code });
    return new PanelPage(browser, page);
  }

  async post(message: ToPanel): Promise<void> {
    await this.page.evaluate((data) => void window.dispatchEvent(new MessageEvent("message", { data })), message as unknown);
  }

  /** Show a session that holds these items. */
  async load(items: readonly ViewItem[], picture: Partial<SessionPicture> = {}): Promise<void> {
    await this.state(picture);
    this.seq += 1;
    await this.post({ type: "load", sessionId: SESSION, items, first: 0, seq: this.seq });
    await this.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"); // a key pressed before meets no row
  }

  async state(picture: Partial<SessionPicture> = {}, beside: Partial<PanelState> = {}): Promise<void> {
    await this.post({ type: "state", state: { ...stateOf(picture), ...beside } });
  }

  /** Show no session: the first message begins one with these. */
  async fresh(picture: Partial<FreshPicture> = {}, beside: Partial<PanelState> = {}): Promise<void> {
    await this.post({ type: "clear" });
    await this.post({ type: "state", state: { ...STATE, ...beside, session: null, fresh: { ...STATE.fresh, ...picture } } });
  }

  /** One event with these operations. */
  async event(...ops: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
    this.seq += 1;
    await this.post({ type: "events", sessionId: SESSION, events: [{ seq: this.seq, at: 0, ops: ops }] });
  }

  upsert({ id, kind, fields }: ViewItem): Promise<void> {
    return this.event({ op: "upsert", item: id, kind, fields });
  }

  /** What the panel asked for, of one type, as soon as there is any. */
  async asked<T extends FromPanel["type"]>(type: T): Promise<readonly Extract<FromPanel, { readonly type: T }>[]> {
    return until(`the panel to ask for ${type}`, async () => {
      const sent = await this.page.evaluate<readonly FromPanel[]>("sent");
      const found = sent.filter((one): one is Extract<FromPanel, { readonly type: T }> => one.type === type);
      return found.length > 0 ? found : null;
    });
  }

  async close(): Promise<void> {
    await this.browser.close();
  }
}
