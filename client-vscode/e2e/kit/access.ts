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
import type { Panel } from "./editor.ts";
import { until } from "./processes.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
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
  const frame = await frameOf(page);
  await frame.evaluate(AXE);
  const found = (await frame.evaluate((rules) => {
    const { axe } = globalThis as unknown as { readonly axe: { run(where: unknown, how: unknown): Promise<unknown> } };
    return axe.run(document, { rules, resultTypes: ["violations"] });
  }, RULES_OFF)) as Found;
  return found.violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)}: ${(node.failureSummary ?? "").replace(/\s+/g, " ").slice(0, 260)}`),
  );
}
