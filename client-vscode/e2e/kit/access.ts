/**
 * What axe finds in the extension's own pages.
 *
 * Purpose: roles, names, states and contrast of a webview as it stands, in whatever theme it has.
 * Invariant: the checker is put into the page by the browser's driver; the page itself still loads nothing.
 * Must never: leave a rule out without a reason beside it.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Frame } from "playwright-core";
import type { Panel, Window } from "./editor.ts";
import { until } from "./processes.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const THEMES = [
  ["dark", "Dark Modern", "body.vscode-dark:not(.vscode-high-contrast)"],
  ["light", "Light Modern", "body.vscode-light:not(.vscode-high-contrast-light)"],
  ["contrast", "Dark High Contrast", "body.vscode-high-contrast:not(.vscode-high-contrast-light)"],
  ["contrast-light", "Light High Contrast", "body.vscode-high-contrast-light"],
] as const;

/** The key of the test's own by which a theme is chosen. */
export const THEME_KEYS = { "ctrl+alt+t": { command: "workbench.action.selectTheme", args: null } };

const RULES_OFF = {
  region: { enabled: false }, // a panel is a part of the window's page; its landmarks are VS Code's
  "page-has-heading-one": { enabled: false }, // likewise
};

interface Found {
  readonly violations: readonly {
    readonly id: string;
    readonly help: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** The frame of a page: the chat panel's, a report's. */
async function frameOf(page: Panel): Promise<Frame> {
  const handle = await page.locator("body").elementHandle();
  return until("the page's frame", () => handle?.ownerFrame() ?? null);
}

/** Every violation, as one line each; an empty list is a page that axe has nothing against. */
export async function violations(page: Panel): Promise<readonly string[]> {
  return violationsIn(await frameOf(page));
}

/** The same for a page that stands alone; without a theme its colours are nobody's. */
export async function violationsIn(frame: Frame, colours = true): Promise<readonly string[]> {
  await frame.evaluate(AXE);
  const found = (await frame.evaluate(
    (rules) => {
      const { axe } = globalThis as unknown as { readonly axe: { run(where: unknown, how: unknown): Promise<unknown> } };
      return axe.run(document, { rules, resultTypes: ["violations"] });
    },
    { ...RULES_OFF, "color-contrast": { enabled: colours } },
  )) as Found;
  return found.violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)}: ${(node.failureSummary ?? "").replace(/\s+/g, " ").slice(0, 260)}`),
  );
}

/** What axe finds in a page, the panel where none is named, in each of VS Code's themes, as it stands; the first one's is chosen at the end. Needs `THEME_KEYS`. */
export async function violationsInEveryTheme(window: Window, name: string, page: Panel = window.panel): Promise<readonly string[]> {
  const found: string[] = [];
  for (const [short, theme, mark] of THEMES) {
    await chooseTheme(window, page, theme, mark);
    found.push(...(await violations(page)).map((one) => `${short}: ${one}`));
    await window.shot(`60-${name}-${short}`);
  }
  const [, theme, mark] = THEMES[0];
  await chooseTheme(window, page, theme, mark);
  return found;
}

async function chooseTheme(window: Window, page: Panel, theme: string, mark: string): Promise<void> {
  const row = window.page.locator(".quick-input-list .monaco-list-row", { hasText: theme });
  await window.pick("Control+Alt+t", "Select Color Theme", theme, row);
  await page.locator(mark).waitFor();
  await window.page.locator(".quick-input-widget").waitFor({ state: "hidden" }); // or the next keys would meet it
}
