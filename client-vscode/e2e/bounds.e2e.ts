/** What the user lets a session use and do: limits of tokens, and the mode, from the composer. */

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
  editor = await Editor.start(home, { machine: { "gloveport.sessionTokens": 1_000_000 }, keys: THEME_KEYS });
  window = await editor.open(home.workspace("bounds", { "a.txt": "one\n" }));
  await window.openPanel();
  await window.say("say hello", "Trusted");
  await window.panel.getByText("Hello.", { exact: true }).waitFor();
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

/** Type both limits as the input boxes ask for them. */
async function limits(turn: string, session: string): Promise<void> {
  const box = window.page.locator(".quick-input-widget input");
  for (const [part, typed] of [
    ["1 of 2", turn],
    ["2 of 2", session],
  ] as const) {
    await window.page.locator(".quick-input-titlebar", { hasText: part }).waitFor();
    await box.fill(typed);
    await box.press("Enter");
  }
}

test("a session begins within the limits of the machine's settings", async () => {
  await window.panel.locator(".meter", { hasText: "Budget" }).getByText("12.4k of 1M").waitFor();
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
  await window.command("Gloveport: Set Token Limits of This Session");
  await limits("20k", "");
  await window.panel.locator(".meter", { hasText: "Budget" }).waitFor();
  await window.say("look twice");
  const card = window.panel.getByRole("group", { name: "Budget reached" });
  await card.getByText("This turn has used 12,400 of 20,000 tokens").waitFor();
  expect(await window.panel.getByText("This is never said.").count()).toBe(0);
  await window.shot("48-budget-reached");
  expect(await violationsInEveryTheme(window, "budget")).toEqual([]);
  await card.getByRole("button", { name: "Add 10k tokens" }).click();
  await window.panel.locator(".meter", { hasText: "of 30k" }).waitFor();
  await card.getByRole("button", { name: "Set limit" }).click();
  await limits("40k", "200k");
  await window.panel.locator(".meter", { hasText: "of 200k" }).waitFor();
  await window.say("now go on");
  await window.panel.getByText("I went on.").waitFor();
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
