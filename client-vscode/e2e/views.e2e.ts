/** The views beside the chat: grants, sandboxes, status, tests, reports, several roots, other themes. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { call, scene } from "./kit/script.ts";
import { LAST, SHOP, SHOP_FILES, TIDY, TWO } from "./kit/shop.ts";

let home: Home;
let editor: Editor;
let window: Window;

const FOLDER = scene(
  "which folder",
  { text: "I tidy a line and run the tests.\n", calls: [call("edit_file", { path: "shop.py", ...TWO }), call("run_tests", {})] },
  { text: "This one." },
);

beforeAll(async () => {
  const again = scene("once more", { text: "I run them.\n", calls: [call("run_tests", {})] }, { text: "They were run again." });
  home = new Home({ name: "e2e", steps: [...TIDY, ...FOLDER, ...again] });
  editor = await Editor.start(home);
  window = await editor.open(home.workspace("shop", SHOP_FILES), { size: { width: 1360, height: 900 } });
  await window.openPanel();
  await window.say("tidy the shop", "Trusted");
  await window.panel.locator(".ap").waitFor();
  await window.panel.locator(".ap").getByText("This session").click();
  await window.answerBy(/Allow for this session/);
  await window.panel.getByText(LAST).waitFor();
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

test("a grant in force is listed with its end; revoked it is gone, and the next run asks again", async () => {
  await window.show("Gloveport Rights");
  const grant = window.page.getByRole("treeitem", { name: /Run the tests of this workspace/ });
  await grant.waitFor();
  await window.page.getByRole("treeitem", { name: /^bubblewrap/ }).waitFor();
  await grant.hover();
  await window.shot("40-trees");
  await window.rowAction(grant, /Revoke/);
  await grant.waitFor({ state: "detached" });
  const { connection } = await home.connect();
  const [session] = (await connection.call("session/list", {})).sessions;
  expect((await connection.call("grant/list", { sessionId: session!.sessionId })).grants).toEqual([]);
  await connection.close();
  await window.openPanel();
  expect(await window.panel.locator(".ap").count()).toBe(0); // the second run of the first turn was under the grant
  await window.say("once more");
  await window.panel.locator(".ap", { hasText: "Run the tests?" }).waitFor();
  await window.answerBy(/Allow once/);
  await window.panel.getByText("They were run again.").waitFor();
});

test("the folder's points are listed, and what putting it back would do is shown first", async () => {
  await window.show("Gloveport Rights");
  const point = window.page.locator(".pane", { hasText: "Snapshots" }).getByRole("treeitem").first();
  await point.waitFor();
  await window.rowAction(point, /Preview/);
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
  await field.pressSequentially("NOTHING is in");
  const hit = window.panel.locator(".srow.hit", { hasText: LAST });
  await hit.waitFor();
  await window.shot("42-search");
  await hit.click();
  await window.panel.locator(".say:focus", { hasText: LAST }).waitFor();
  await window.command("Gloveport: Find a Session");
  const box = window.page.locator(".quick-input-widget input");
  await box.fill("nothing is in");
  await window.page.locator(".quick-input-list .monaco-list-row", { hasText: LAST }).first().waitFor();
  await box.fill("zebra");
  await window.page.locator(".quick-input-list .monaco-list-row").first().waitFor({ state: "detached" });
  await window.page.keyboard.press("Escape");
});

/** Open the file of tests in the Test Explorer, and wait for each test's result. */
async function results(of: Window, wanted: readonly RegExp[]): Promise<void> {
  await of.openTests(/test_shop\.py/, /^test_total/);
  for (const name of wanted) {
    await of.page.getByRole("treeitem", { name }).waitFor();
  }
}

test("results of the agent's test run stand in the Test Explorer, each with its state, also after a reload", async () => {
  const all = [/^test_total \(Passed\)/, /^test_cheapest \(Passed\)/, /^test_label \(Passed\)/];
  await window.page.keyboard.press("Escape");
  await results(window, all);
  await window.shot("43-tests");
  await window.reload();
  await window.openPanel();
  await window.panel.getByText(LAST).waitFor();
  await results(window, all);
});

test("the trace of the newest turn, and the audit chain verified", async () => {
  await window.command("Gloveport: Show Trace of the Newest Turn");
  const { report } = window;
  await report.getByText("Where the time went").waitFor();
  await report.getByRole("button", { name: "Verify the audit chain" }).click();
  await report.getByText("Audit chain verified").waitFor();
  await window.shot("44-trace");
});

test("a changed line of the audit log breaks its chain, and that is told with the line", async () => {
  const path = join(home.data, "audit.jsonl");
  const lines = readFileSync(path, "utf8").split("\n");
  const changed = lines.map((line, at) => (at === 1 ? line.replace(/[0-9](?=[^0-9]*$)/, (digit) => String((Number(digit) + 1) % 10)) : line));
  expect(changed[1]).not.toBe(lines[1]);
  writeFileSync(path, changed.join("\n"));
  await window.command("Gloveport: Verify the Audit Chain");
  await window.page.locator(".notification-toast", { hasText: "The audit chain breaks at line 2." }).waitFor();
  await window.shot("44-audit-broken");
  writeFileSync(path, lines.join("\n"));
});

test("one session works in one folder: with several roots the folder is asked, and its hunks are that root's own", async () => {
  const roots = ["left", "right"].map((name) => home.workspace(name, SHOP_FILES));
  const file = join(home.dir, "both.code-workspace");
  writeFileSync(file, JSON.stringify({ folders: roots.map((path) => ({ path })) }));
  const both = await editor.open(file);
  try {
    await both.openPanel();
    await both.composer.fill("which folder");
    await both.composer.press("Enter");
    await both.page.locator(".quick-input-widget .monaco-list-row", { hasText: "right" }).first().click();
    await both.page.locator(".quick-input-widget .monaco-list-row", { hasText: "Restricted" }).first().click();
    await both.answerBy(/Allow once/);
    await both.panel.getByText("This one.").waitFor();
    await both.panel.locator(".title", { hasText: "which folder" }).waitFor();
    await results(both, [/^test_total \(Failed\)/, /^test_label \(Passed\)/]);
    await both.shot("45-tests-failed");
    await both.openPanel();
    await both.panel.getByRole("button", { name: "Review shop.py" }).click();
    await both.page.locator(".codelens-decoration a", { hasText: "Accept" }).first().click();
    const [left, right] = roots.map((root) => () => readFileSync(join(root, "shop.py"), "utf8"));
    await until("the hunk in the right folder", () => right!() === SHOP.replace(TWO.old, TWO.new));
    expect(left!()).toBe(SHOP);
    await both.shot("45-roots");
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
    await other.panel.getByText(LAST).waitFor();
    await other.openFile("shop.py");
    await other.page.locator(".codelens-decoration a", { hasText: "Gloveport 1 of 2" }).waitFor();
    await other.shot(`46-${name}`);
  } finally {
    await other.close();
  }
});
