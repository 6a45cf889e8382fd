/** The proposed files in the panel's page alone: what a button beside one asks for, when it hears, and what stands there. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { FileRow, FromPanel } from "../src/common/panel.ts";
import { PanelPage, stateOf } from "./kit/page.ts";
import { until } from "./kit/processes.ts";

const file = (name: string, more: Partial<FileRow> = {}): FileRow => ({
  changeId: `c-${name}`,
  digest: `d-${name}`,
  path: name,
  name,
  folder: "",
  kind: "modify",
  added: 1,
  removed: 1,
  hunks: 1,
  alone: "",
  refused: "",
  findings: [],
  ...more,
});
const A = file("a.py");
const B = file("b.py");
const RUNS = file("Makefile", { alone: "Runs by itself: make runs it." });
const NEVER = file("1.sql", { refused: "The rule user:db refuses it: You said so." });

let panel: PanelPage;

beforeAll(async () => {
  panel = await PanelPage.open();
});

afterAll(async () => {
  await panel?.close();
});

/** Press by the page itself, in one go with what comes before: no moment lies between. */
const press = (label: string): string =>
  `[...document.querySelectorAll(".files button")].find((one) => (one.ariaLabel ?? one.textContent) === ${JSON.stringify(label)}).click();`;

const asked = (): Promise<readonly FromPanel[]> => panel.page.evaluate<readonly FromPanel[]>("sent.filter((one) => one.type === 'files')");

async function forget(): Promise<void> {
  await panel.page.evaluate("sent.length = 0");
}

/** Press until it is heard. */
async function heard(label: string): Promise<FromPanel> {
  return until(`${label} to be heard`, async () => {
    await panel.page.evaluate(press(label));
    return (await asked())[0] ?? null;
  });
}

/** Show these files, and press in the same moment. */
async function showAndPress(files: readonly FileRow[], ...labels: readonly string[]): Promise<void> {
  const message = JSON.stringify({ type: "state", state: stateOf({ files }) });
  await panel.page.evaluate(`window.dispatchEvent(new MessageEvent("message", { data: ${message} })); ${labels.map(press).join("")}`);
}

test("a decision names the digest that stood there, and what decides is deaf where it or its file just changed", async () => {
  await panel.load([]);
  await panel.state({ files: [A, B] });
  expect(await heard("Keep a.py")).toEqual({ type: "files", action: "keep", files: [{ changeId: "c-a.py", digest: "d-a.py" }] });
  await forget();
  await heard("Keep b.py");
  await forget();
  await showAndPress([{ ...A, digest: "other" }, B], "Keep a.py", "Undo a.py", "Keep all", "Undo all");
  expect(await asked()).toEqual([]);
  await showAndPress([{ ...A, digest: "other" }, B], "Keep b.py"); // its own file is as it was, where it was
  expect(await asked()).toEqual([{ type: "files", action: "keep", files: [{ changeId: "c-b.py", digest: "d-b.py" }] }]);
  await forget();
  await showAndPress([{ ...A, digest: "other" }, B, file("c.py")], "Keep b.py"); // it moved
  expect(await asked()).toEqual([]);
  expect(await heard("Keep b.py")).toMatchObject({ action: "keep" });
  await forget();
});

test("Keep all is asked for with all that stands there, Undo all too, each by its digest", async () => {
  await panel.state({ files: [A, RUNS] });
  const files = [A, RUNS].map(({ changeId, digest }) => ({ changeId, digest }));
  expect(await heard("Keep all")).toEqual({ type: "files", action: "keepAll", files });
  await forget();
  expect(await heard("Undo all")).toEqual({ type: "files", action: "undo", files });
  await forget();
});

test("why a file is kept by itself, or not, stands there in words; what is refused has no button to keep it", async () => {
  await panel.state({ files: [A, RUNS, NEVER] });
  const row = (name: string) => panel.locator(".files li", { hasText: name });
  await row("Makefile").getByText("Runs by itself: make runs it. Keep all leaves it; its own button keeps it.").waitFor();
  await row("1.sql").getByText("The rule user:db refuses it: You said so.").waitFor();
  expect(await panel.locator("[aria-label='Keep 1.sql']").count()).toBe(0);
  expect(await panel.locator("[aria-label='Undo 1.sql']").count()).toBe(1);
  expect(await row("a.py").locator(".why").count()).toBe(0);
  expect(await heard("Keep Makefile")).toMatchObject({ action: "keep", files: [{ digest: "d-Makefile" }] });
  await forget();
});

test("the list closes and opens with the focus on its own button, and its rows are deaf when they are there again", async () => {
  await panel.state({ files: [A] });
  const toggle = panel.locator(".files .pick");
  await toggle.press("Enter");
  expect(await panel.locator(".files li").count()).toBe(0);
  await toggle.press("Enter");
  expect(await toggle.evaluate((one) => one === one.ownerDocument.activeElement)).toBe(true);
  await toggle.press("Enter");
  await panel.page.evaluate(`document.querySelector(".files .pick").click(); ${press("Keep a.py")}`);
  expect(await asked()).toEqual([]);
  expect(await heard("Keep a.py")).toMatchObject({ action: "keep" });
});
