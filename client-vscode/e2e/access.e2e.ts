/** For everybody: names, roles and contrast in each theme, and the whole job without a mouse. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { THEME_KEYS, violationsInEveryTheme } from "./kit/access.ts";
import { Editor, PROGRAM, shown } from "./kit/editor.ts";
import type { Panel, Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { LAST, ONE, SHOP, SHOP_FILES, TIDY, TWO } from "./kit/shop.ts";

const TABS_MAX = 40;

let home: Home;
let editor: Editor;
let window: Window;
let root: string;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: [...TIDY] });
  editor = await Editor.start(home, { keys: THEME_KEYS });
  root = home.workspace("shop", SHOP_FILES);
  window = await editor.open(root, { size: { width: 1360, height: 900 } });
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-access");
    console.error(editor.extensionLog().slice(-3000));
  }
});

const onDisk = (): string => readFileSync(join(root, "shop.py"), "utf8");

const inEveryTheme = async (name: string, page: Panel = window.panel): Promise<void> =>
  expect(await violationsInEveryTheme(window, name, page)).toEqual([]);

/** Press Tab, or Shift+Tab, until the element with the focus matches. */
async function tabTo(selector: string, key = "Tab"): Promise<void> {
  for (let press = 0; press < TABS_MAX; press += 1) {
    await window.page.keyboard.press(key);
    if (await window.panel.locator("body").evaluate((body, wanted) => body.ownerDocument.activeElement?.matches(wanted) ?? false, selector)) {
      return;
    }
  }
  throw new Error(`${TABS_MAX} presses of ${key} did not lead to ${selector}`);
}

test("an empty panel", async () => {
  await window.openPanel();
  await inEveryTheme("empty");
});

test("without a mouse: a message and the folder's trust", async () => {
  await window.page.keyboard.press("Alt+g");
  await until("the composer to have the focus", () => window.composer.evaluate((area) => area === area.ownerDocument.activeElement));
  await window.page.keyboard.type("tidy the shop");
  await window.page.keyboard.press("Enter");
  await window.page.locator(".quick-input-widget .monaco-list-row", { hasText: "Restricted" }).waitFor();
  await window.page.locator(".quick-input-widget input:focus").waitFor();
  await window.page.keyboard.type("Restricted");
  await window.page.locator(".quick-input-widget .monaco-list-row").nth(1).waitFor({ state: "detached" });
  await window.page.keyboard.press("Enter");
  const card = window.panel.locator(".ap");
  await card.waitFor();
});

test("a card that waits", async () => {
  await inEveryTheme("card");
});

test("without a mouse: the card is narrowed and allowed", async () => {
  const card = window.panel.locator(".ap");
  await window.page.keyboard.press("Alt+a");
  await until("the card to have the focus", () => card.evaluate((element) => element === element.ownerDocument.activeElement));
  await window.page.keyboard.press("3");
  await card
    .getByRole("radio", { name: /session/i })
    .and(window.panel.locator(":checked"))
    .waitFor();
  await window.answer(() => window.page.keyboard.press("Control+Enter"));
  await window.panel.getByText(LAST).waitFor();
});

test("without a mouse: rows are walked and opened, the sessions listed", async () => {
  await window.page.keyboard.press("Alt+g");
  await tabTo(".conv", "Shift+Tab");
  await window.page.keyboard.press("End");
  await tabTo(".title", "Shift+Tab");
  await window.page.keyboard.press("Enter");
  await until("the search field to have the focus", () =>
    window.panel.locator(".find").evaluate((field) => field === field.ownerDocument.activeElement),
  );
  await inEveryTheme("sessions");
  await window.panel.locator(".find").focus(); // choosing a theme took the focus to the editor
  await window.page.keyboard.press("ArrowDown");
  await window.panel.locator(".srow:focus").waitFor();
  await window.page.keyboard.press("Enter");
  await window.panel.locator(".srow").first().waitFor({ state: "detached" });
});

test("the whole conversation, with its results and files", async () => {
  await window.panel.locator(".files").waitFor();
  await window.panel.locator("body").evaluate((body) => body.querySelectorAll("details").forEach((one) => (one.open = true)));
  await inEveryTheme("done");
});

test("the report of a turn, with the audit chain verified", async () => {
  await window.command("Gloveport: Show Trace of the Newest Turn");
  const { report } = window;
  await report.getByRole("button", { name: "Verify the audit chain" }).click();
  await report.getByText("Audit chain verified").waitFor();
  await inEveryTheme("report", report);
  await window.command("View: Close All Editors");
  await until("the panel's page to be the only one", async () => (await window.page.locator("iframe.webview").count()) === 1);
});

test("a link that is lost, while the conversation stays", async () => {
  editor.useProgram({ command: "/nowhere/gloveport", arguments: [] });
  await until("the program to be missed", async () => {
    await home.killDaemon(); // once more where the settings were not read yet, and it was started again
    return shown(window.panel.locator(".note", { hasText: "There is no program /nowhere/gloveport here." }));
  });
  await inEveryTheme("lost");
  editor.useProgram(PROGRAM);
  await until("the settings to be read", async () => {
    await window.command("Gloveport: Connect to the Daemon Now");
    return (await window.panel.locator(".note").count()) === 0;
  });
  await window.panel.getByText(/^In sync/).waitFor();
});

test("without a mouse: one file is kept, the other taken back", async () => {
  await window.page.keyboard.press("Alt+g");
  await tabTo("[aria-label='Keep shop.py']", "Shift+Tab");
  const enter = (): Promise<boolean> => window.page.keyboard.press("Enter").then(() => true);
  await window.decideFiles("Keep shop.py", () => onDisk() === SHOP.replace(ONE.old, ONE.new).replace(TWO.old, TWO.new), enter);
  await window.page.keyboard.press("Alt+g");
  await tabTo("[aria-label='Undo NOTES.md']", "Shift+Tab");
  await window.decideFiles("Undo NOTES.md", async () => (await window.panel.locator(".files").count()) === 0, enter);
});
