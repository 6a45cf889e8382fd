/** The main job in a window: ask, approve narrowed, tests, accept one hunk, reject one, the file exact on disk. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import type { Locator } from "playwright-core";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { LAST, ONE, SHOP, SHOP_FILES, TIDY } from "./kit/shop.ts";

let home: Home;
let editor: Editor;
let window: Window;
let root: string;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: [...TIDY] });
  editor = await Editor.start(home);
  root = home.workspace("shop", SHOP_FILES);
  window = await editor.open(root, { size: { width: 1360, height: 862 } });
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-job");
    console.error(editor.extensionLog().slice(-3000));
  }
});

/** What each level of trust means, as the user reads it before the first run. */
const DIFFERENCES = [
  ["Trusted", "Your own code. Any sandbox may be chosen, also a weak one."],
  ["Restricted", "Code you did not write. The sandbox hides your files and has no network."],
  ["Untrusted", "Code that may be hostile. Programs run in a virtual machine or not at all."],
] as const;

const onDisk = (name: string): string => readFileSync(join(root, name), "utf8");

test("first run: the folder's trust is asked, the card shows what it would allow", async () => {
  await window.openPanel();
  await window.widen(400);
  await window.shot("01-empty");
  await window.composer.fill("tidy the shop, and say what you did");
  await window.composer.press("Enter");
  const level = (name: string): Locator => window.page.locator(`.quick-input-list .monaco-list-row[aria-label^="${name}"]`);
  for (const [name, words] of DIFFERENCES) {
    await level(name).getByText(words).waitFor();
  }
  await window.shot("02-trust");
  await level("Restricted").click();
  const card = window.panel.locator(".ap");
  await card.getByText("Run the tests?").waitFor();
  await window.shot("03-card");
});

test("the answer is narrowed, and the right that was issued is the one that was shown", async () => {
  const card = window.panel.locator(".ap");
  await card.getByText("This session").click();
  await card.getByText(/run exactly/).click();
  await card.getByLabel("Uses", { exact: true }).selectOption("5");
  await card.getByLabel("Ends", { exact: true }).selectOption("3600");
  const sentence = await card.locator(".sum").innerText();
  expect(sentence).toMatch(/^You allow: run exactly pytest, in this session, .*at most 5 times, ending in 1 h\.$/);
  await window.shot("04-card-narrowed");
  await window.answerBy(/Allow for this session/);
  await window.panel.getByText("All tests pass:").waitFor();
  await window.panel.locator(".tests").nth(1).waitFor();
  const { connection } = await home.connect();
  const { sessions } = await connection.call("session/list", {});
  const { grants } = await connection.call("grant/list", { sessionId: sessions[0]!.sessionId });
  expect(grants).toHaveLength(1);
  expect(grants[0]!.usesLeft).toBe(3);
  expect(grants[0]!.expiresAt! / 1e6 - Date.now() / 1000).toBeLessThan(3600);
  await connection.close();
  await window.panel.getByText(LAST).waitFor();
  await window.panel.locator(".say.live").waitFor({ state: "detached" });
  await window.panel.getByText(/^In sync/).waitFor();
  await window.shot("05-done");
});

test("one hunk is accepted by its lens, one rejected by the keyboard; the file is exact", async () => {
  expect(onDisk("shop.py")).toBe(SHOP);
  await window.openFile("shop.py");
  const lenses = window.page.locator(".codelens-decoration a");
  await lenses.filter({ hasText: /Gloveport 1 of 2/ }).waitFor();
  await lenses.filter({ hasText: /Gloveport 2 of 2/ }).waitFor();
  expect((await lenses.filter({ hasText: "Accept" }).first().textContent())?.trimEnd()).toBe("\u00A0Accept"); // apart from its sign
  for (const name of ["mode", "sand"]) {
    const cut = await window.panel.locator(`.pick.${name} > span`).evaluate((element) => element.scrollWidth > element.clientWidth);
    expect(cut, name).toBe(false);
  }
  await window.shot("06-file");
  await lenses.filter({ hasText: "Accept" }).first().click();
  const accepted = SHOP.replace(ONE.old, ONE.new);
  await until("the first hunk on disk", () => onDisk("shop.py") === accepted);
  await lenses.filter({ hasText: /Gloveport 1 of 1/ }).waitFor();
  await window.page
    .locator(".view-lines")
    .first()
    .click({ position: { x: 200, y: 10 } });
  await window.page.keyboard.press("Alt+F5");
  await window.page.locator(".statusbar-item", { hasText: "Ln 19, " }).waitFor();
  await window.page.keyboard.press("Alt+n");
  await lenses
    .filter({ hasText: /Gloveport/ })
    .first()
    .waitFor({ state: "detached" });
  expect(onDisk("shop.py")).toBe(accepted);
  await window.shot("07-decided");
});

test("a new file is looked at and kept from the panel", async () => {
  await window.panel.getByText("1 file", { exact: true }).waitFor();
  await window.panel.getByRole("button", { name: "Review NOTES.md" }).click();
  await window.page.locator(".tab.active", { hasText: "NOTES.md" }).waitFor();
  await window.page.locator(".codelens-decoration a", { hasText: "Gloveport 1 of 1: 3 lines added" }).waitFor();
  await window.shot("08-new-file");
  await window.decideFiles("Keep all", () => {
    try {
      return onDisk("NOTES.md") === "# Notes\n\nTotals add up now.\n";
    } catch {
      return false;
    }
  });
  await window.panel.locator(".files").waitFor({ state: "detached" });
});
