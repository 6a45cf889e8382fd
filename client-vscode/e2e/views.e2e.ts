/** The views beside the chat: grants, sandboxes, status, tests, reports, several roots, other themes. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { scene } from "./kit/script.ts";
import { SHOP_FILES, TIDY } from "./kit/shop.ts";

let home: Home;
let editor: Editor;
let window: Window;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: [...TIDY, ...scene("which folder", { text: "This one." })] });
  editor = await Editor.start(home);
  window = await editor.open(home.workspace("shop", SHOP_FILES), { size: { width: 1360, height: 900 } });
  await window.openPanel();
  await window.say("tidy the shop", "Trusted");
  await window.panel.locator(".ap").waitFor();
  await window.page.waitForTimeout(700);
  await window.panel.locator(".ap").getByText("This session").click();
  await window.panel.getByRole("button", { name: /Allow for this session/ }).click();
  await window.panel.getByText("That is all.").waitFor();
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-views");
    console.error(editor.extensionLog().slice(-3000));
  }
});

test("a grant in force is listed with its end, and is gone when it is revoked", async () => {
  await window.show("Gloveport Rights");
  const grant = window.page.getByRole("treeitem", { name: /Run the tests of this workspace/ });
  await grant.waitFor();
  await window.page.getByRole("treeitem", { name: /bubblewrap/ }).waitFor();
  await grant.hover();
  await window.shot("40-trees");
  await grant.getByRole("button", { name: /Revoke/ }).click();
  await grant.waitFor({ state: "detached" });
  const { connection } = await home.connect();
  const [session] = (await connection.call("session/list", {})).sessions;
  expect((await connection.call("grant/list", { sessionId: session!.sessionId })).grants).toEqual([]);
  await connection.close();
});

test("the folder's points are listed, and what putting it back would do is shown first", async () => {
  const point = window.page.locator(".pane", { hasText: "Snapshots" }).getByRole("treeitem").first();
  await point.waitFor();
  await point.hover();
  await point.getByRole("button", { name: /Preview/ }).click();
  await window.page.locator(".tab.active", { hasText: ".diff" }).waitFor();
  await window.shot("40-snapshot");
});

test("the sandbox is chosen from rungs that say what they mean, and the status bar shows it", async () => {
  await window.page.locator(".statusbar-item", { hasText: "Trusted: bubblewrap" }).click();
  const rows = window.page.locator(".quick-input-list .monaco-list-row");
  await rows.filter({ hasText: "bubblewrap" }).first().waitFor();
  await window.shot("41-sandbox");
  await rows.filter({ hasText: "process" }).first().click();
  await window.page.locator(".statusbar-item", { hasText: "Trusted: process" }).waitFor();
  await window.hoverStatus("Trusted: process", "Doctor");
  await window.shot("42-status");
});

test("a session is found by what was said in it, in the panel and by the keyboard's list", async () => {
  await window.openPanel();
  await window.panel.getByRole("button", { name: /shop/ }).first().click();
  const field = window.panel.getByRole("textbox", { name: "Find a session" });
  await field.pressSequentially("THAT is all");
  const hit = window.panel.locator(".srow.hit", { hasText: "That is all." });
  await hit.waitFor();
  await window.shot("42-search");
  await hit.click();
  await window.panel.locator(".say:focus", { hasText: "That is all." }).waitFor();
  await window.command("Gloveport: Find a Session");
  const box = window.page.locator(".quick-input-widget input");
  await box.fill("that is all");
  await window.page.locator(".quick-input-list .monaco-list-row", { hasText: "That is all." }).first().waitFor();
  await box.fill("zebra");
  await window.page.locator(".quick-input-list .monaco-list-row").first().waitFor({ state: "detached" });
  await window.page.keyboard.press("Escape");
});

test("results of the agent's test run stand in the Test Explorer", async () => {
  await window.page.keyboard.press("Escape");
  await window.show("Testing");
  await window.page.getByRole("treeitem", { name: /test_shop\.py/ }).waitFor();
  await window.shot("43-tests");
});

test("the trace of the newest turn, and the audit chain verified", async () => {
  await window.command("Gloveport: Show Trace of the Newest Turn");
  const report = window.page.locator("iframe.webview").last().contentFrame().locator("iframe#active-frame").contentFrame();
  await report.getByText("Where the time went").waitFor();
  await report.getByRole("button", { name: "Verify the audit chain" }).click();
  await report.getByText("Audit chain verified").waitFor();
  await window.shot("44-trace");
});

test("one session works in one folder: with several roots the folder is asked", async () => {
  const roots = ["left", "right"].map((name) => home.workspace(name, { "a.txt": `${name}\n` }));
  const file = join(home.dir, "both.code-workspace");
  writeFileSync(file, JSON.stringify({ folders: roots.map((path) => ({ path })) }));
  const both = await editor.open(file);
  try {
    await both.openPanel();
    await both.composer.fill("which folder");
    await both.composer.press("Enter");
    await both.page.locator(".quick-input-widget .monaco-list-row", { hasText: "right" }).first().click();
    await both.page.locator(".quick-input-widget .monaco-list-row", { hasText: "Restricted" }).first().click();
    await both.panel.getByText("This one.").waitFor();
    await both.panel.locator(".title", { hasText: "right" }).waitFor();
  } finally {
    await both.close();
  }
});

test.each([
  ["light", "Default Light Modern", "body.vscode-light"],
  ["contrast", "Default High Contrast", "body.vscode-high-contrast"],
])("it looks right in %s", async (name, theme, mark) => {
  writeFileSync(join(editor.userDir, "User", "settings.json"), JSON.stringify({ ...editor.settings, "workbench.colorTheme": theme }));
  const other = await editor.open(join(home.dir, "shop"), { size: { width: 1360, height: 900 } });
  try {
    await other.openPanel();
    await other.panel.locator(mark).waitFor();
    await other.panel.getByRole("button", { name: /New session/ }).click();
    await other.panel.locator(".srow", { hasText: "shop" }).first().click();
    await other.panel.getByText("That is all.").waitFor();
    await other.openFile("shop.py");
    await other.page.locator(".codelens-decoration a", { hasText: "Gloveport 1 of 2" }).waitFor();
    await other.shot(`46-${name}`);
  } finally {
    await other.close();
  }
});
