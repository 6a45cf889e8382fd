/** What the user lets a session use and do: limits of tokens and of money, and the mode, from the composer. */

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { THEME_KEYS, violationsInEveryTheme } from "./kit/access.ts";
import { Editor } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { call, scene } from "./kit/script.ts";

const usage = { input_tokens: 9_000, output_tokens: 3_400 };
const READ = call("read_file", { path: "a.txt" });
const WRITE = call("write_file", { path: "b.txt", content: "new\n" });
const STEPS = [
  ...scene("say hello", { text: "Hello.", usage }),
  ...scene("plan it", { text: "I look first.\n", calls: [READ, WRITE], usage }, { text: "I would add b.txt.", usage }),
  ...scene("look twice", { text: "I look.\n", calls: [READ], usage }, { text: "This is never said.", usage }),
  ...scene("look once more", { text: "I look again.\n", calls: [READ], usage }, { text: "Nor is this.", usage }),
  ...scene(
    "two settings",
    { calls: [call("write_file", { path: "conftest.py", content: "first = 1\n" }), call("write_file", { path: "package.json", content: "{}\n" })] },
    { text: "Both are proposed." },
  ),
  ...scene("now go on", { text: "I went on.", usage }),
];

let home: Home;
let editor: Editor;
let window: Window;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: STEPS });
  editor = await Editor.start(home, { machine: { "gloveport.sessionTokens": 1_000_000, "gloveport.sessionUsd": 2 }, keys: THEME_KEYS });
  window = await editor.open(home.workspace("bounds", { "a.txt": "one\n" }));
  await window.openPanel();
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-bounds");
    console.error(editor.extensionLog().slice(-3000));
  }
});

/** Choose a limit in the list that is open, and type it. */
async function limit(name: string, typed: string): Promise<void> {
  await window.page.locator(".quick-input-list .monaco-list-row", { hasText: name }).click();
  await window.page.locator(".quick-input-titlebar", { hasText: `Most ${name[0]?.toLowerCase() ?? ""}` }).waitFor();
  const box = window.page.locator(".quick-input-widget input");
  await box.fill(typed);
  await box.press("Enter");
}

const meter = (words: string): Promise<void> => window.panel.locator(".meter", { hasText: "Budget" }).getByText(words).waitFor();

test("a session that can't have the limit of the machine's settings does not begin, and none is left of it", async () => {
  await window.composer.fill("say hello");
  await window.composer.press("Enter");
  await window.page.locator(".quick-input-widget .monaco-list-row", { has: window.page.getByText("Trusted", { exact: true }) }).click();
  await window.panel.getByText("no price is known for scripted/test").waitFor();
  expect(await window.composer.inputValue()).toBe("say hello"); // what was not said is kept
  await window.shot("46-no-price");
  const { connection } = await home.connect();
  expect((await connection.call("session/list", {})).sessions).toEqual([]);
  await connection.close();
});

test("a session begins within the limits of the machine's settings, once its model has a price", async () => {
  appendFileSync(join(home.data, "config.toml"), "input_usd = 10\noutput_usd = 50\n");
  await window.say("say hello");
  await window.panel.getByText("Hello.", { exact: true }).waitFor();
  await meter("$0.26 of $2.00");
  const told = await window.panel.locator(".meter", { hasText: "Budget" }).getAttribute("title");
  expect(told).toContain("12,400 of 1,000,000 tokens of this session used.");
});

test("in plan mode the agent looks, and its write is refused; the mode outlives a reload", async () => {
  await window.panel.getByRole("button", { name: "Agent" }).click();
  await window.page.locator(".quick-input-list .monaco-list-row", { hasText: "Plan" }).click();
  await window.panel.locator(".tb").getByText("Plan", { exact: true }).waitFor();
  await window.say("plan it");
  await window.panel.getByText("I would add b.txt.").waitFor();
  await window.panel.locator("summary", { hasText: "Denied" }).getByText("plan mode").waitFor();
  await window.panel.getByText("Plan mode looks and changes nothing.").waitFor();
  expect(await window.panel.locator(".files").count()).toBe(0);
  await window.shot("47-plan-mode");
  expect(await violationsInEveryTheme(window, "plan")).toEqual([]);
  await window.reload();
  await window.openPanel();
  await window.panel.getByRole("button", { name: "Choose mode" }).click(); // the refusal's own way out
  await window.page.locator(".quick-input-list .monaco-list-row", { hasText: "Agent" }).click();
  await window.panel.locator(".tb").getByText("Agent", { exact: true }).waitFor();
});

test("a turn that would pass its limit ends and says so; a higher limit lets the next one go on", async () => {
  await window.command("Gloveport: Set Limits of This Session");
  await limit("Tokens of a Turn", "20k");
  await window.say("look twice");
  const card = window.panel.getByRole("group", { name: "Budget reached" });
  await card.getByText("This turn has used 12,400 of 20,000 tokens").waitFor();
  expect(await window.panel.getByText("This is never said.").count()).toBe(0);
  await meter("12.4k of 20k");
  await window.shot("48-budget-reached");
  expect(await violationsInEveryTheme(window, "budget")).toEqual([]);
  await card.getByRole("button", { name: "Add 10k tokens" }).click();
  await meter("$1.04 of $2.00"); // the next turn begins anew
  expect(await window.panel.locator(".meter", { hasText: "Budget" }).getAttribute("title")).toContain("30,000 tokens for the next turn.");
});

test("a limit in US dollars is set by the composer's meter, ends a turn, and is raised by its card", async () => {
  await window.panel.locator(".meter", { hasText: "Budget" }).click();
  await limit("US Dollars of a Turn", "0.30");
  await window.say("look once more");
  const card = window.panel.getByRole("group", { name: "Budget reached" }).last();
  await card.getByText("This turn has spent $0.26 of $0.30; the next request may cost $0.1").waitFor();
  expect(await window.panel.getByText("Nor is this.").count()).toBe(0);
  await meter("$0.26 of $0.30");
  await window.shot("48-budget-in-money");
  expect(await violationsInEveryTheme(window, "money")).toEqual([]);
  await card.getByRole("button", { name: "Add $0.20" }).click();
  await meter("$1.30 of $2.00");
  await card.getByRole("button", { name: "Set limit" }).click();
  await limit("US Dollars of This Session", "5");
  await meter("$1.30 of $5.00");
  await window.say("now go on");
  await window.panel.getByText("I went on.").waitFor();
  await meter("$1.56 of $5.00");
  await window.shot("49-budget-meter");
});

test("calls that are asked about together are one question of two parts, answered as one", async () => {
  await window.say("two settings");
  const row = window.panel.getByRole("group", { name: "2 questions together" });
  await row.getByText("2 of 2").waitFor();
  expect(await row.locator(".ap").count()).toBe(2);
  await row.locator(".difft .ins", { hasText: "+first = 1" }).waitFor();
  expect(await row.locator(".difft .rem, .difft .ins", { hasText: /^(---|\+\+\+) / }).count()).toBe(0); // a file's name is no line of it
  await window.shot("12-together");
  expect(await violationsInEveryTheme(window, "together")).toEqual([]);
  await window.answerBy("Allow each once (2)", row);
  await window.panel.getByText("Both are proposed.").waitFor();
  await window.panel.locator(".done", { hasText: "Allowed once" }).nth(1).waitFor();
});
