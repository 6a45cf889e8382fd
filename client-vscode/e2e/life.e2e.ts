/** What a window must survive: a reload at any point, the daemon's death, other windows, a change of mind. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import type { Panel, Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { call, scene } from "./kit/script.ts";
import type { Step } from "./kit/script.ts";

const LONG = Array.from({ length: 40 }, (_, at) => `Line ${at + 1} of the long answer.`).join("\n\n");
const held = (word: string, text: string, file: string): readonly Step[] =>
  scene(word, { text, chunk_chars: 10, delay_ms: 2, wait_for_file: file, wait_after_chunks: 12 });

const STEPS: readonly Step[] = [
  ...held("reload in the middle", LONG, "go-reload"),
  ...scene(
    "ask before you run",
    { text: "I run it.\n", calls: [call("run_command", { argv: ["python3", "-c", "print('ran')"] })] },
    { text: "It ran." },
  ),
  ...held("outlive the daemon", LONG, "go-never"),
  ...scene("run something slow", { text: "I run it.\n", calls: [call("run_command", { argv: ["sleep", "300"] })] }, { text: "It went on." }),
  ...scene("break off", { text: "Half of an answer, and then", error: { error_class: "refused", message: "the provider has had enough" } }),
  ...scene("also make it shorter", { text: "Shorter it is." }),
  ...held("steer me", "I begin with a long thought about what to do, and I say it word by word until I may go on. That was it.", "go-steer"),
  ...scene(
    "interrupt me",
    { text: "I begin with a slow command.\n", calls: [call("run_command", { argv: ["sleep", "300"] })] },
    { text: "Done without interruption." },
  ),
  ...scene("use two lines", { text: "Two lines, as you said." }),
  ...scene("forget it", { text: "Forgotten. The new task is done." }),
  ...scene("later please", { text: "Later has come." }),
  ...held("seen twice", "Both windows see this text grow until the end of it, word by word and line by line.", "go-twice"),
];

let home: Home;
let editor: Editor;
let window: Window;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: STEPS });
  editor = await Editor.start(home);
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-life");
    console.error(editor.extensionLog().slice(-3000));
  }
  await window?.close();
});

async function begin(name: string): Promise<string> {
  const root = home.workspace(name, { "a.txt": "one\n" });
  window = await editor.open(root);
  await window.openPanel();
  return root;
}

const inSync = (): Promise<void> => window.panel.getByText(/^In sync/).waitFor();

test("a reload in the middle of a stream: the text so far is there, and grows to its end", async () => {
  await begin("reload");
  await window.say("reload in the middle", "Trusted");
  await window.panel.getByText("Line 4 of the long answer.").waitFor();
  await window.reload();
  await window.openPanel();
  await window.panel.getByText("Line 4 of the long answer.").waitFor();
  await window.panel.locator(".say.live").waitFor();
  await window.shot("20-reload-mid-stream");
  home.release("go-reload");
  await window.panel.getByText("Line 40 of the long answer.").waitFor();
  await inSync();
  expect(await window.panel.locator(".ask").count()).toBe(1);
});

test("d08: a reload while a card waits: the same card asks, and its answer runs the command once", async () => {
  await begin("card");
  await window.say("ask before you run", "Trusted");
  await window.panel.locator(".ap").waitFor();
  await window.reload();
  await window.openPanel();
  const card = window.panel.locator(".ap");
  await card.getByText("Run this command?").waitFor();
  await window.shot("21-reload-mid-approval");
  await window.answerBy(/Allow once/);
  await window.panel.getByText("It ran.").waitFor();
  expect(await window.panel.locator(".toolrow").count()).toBe(1);
});

test("d08: the daemon dies in mid-stream under an open window: it is started again, and nothing is stuck", async () => {
  await begin("death");
  await window.say("outlive the daemon", "Trusted");
  await window.panel.getByText("Line 4 of the long answer.").waitFor();
  await home.killDaemon();
  await window.panel.getByText("Picked up after a restart").waitFor();
  await window.shot("22-daemon-restarted");
  const stop = window.panel.getByRole("button", { name: /Stop the turn/ });
  await stop.click();
  await stop.waitFor({ state: "detached" });
  await window.panel.getByText(/Reconnected, in sync at #\d+/).waitFor();
  await window.say("also make it shorter");
  await window.panel.getByText("Shorter it is.").waitFor();
});

test.each([
  ["a command runs", "run something slow", (panel: Panel) => panel.locator(".vb", { hasText: "Running" })],
  ["a card waits", "ask before you run", (panel: Panel) => panel.locator(".ap")],
])("d08: the daemon dies while %s: Stop ends it, and a new message is answered", async (_, words, sign) => {
  await begin(`death ${words.slice(0, 3)}`);
  await window.say(words, "Trusted");
  await sign(window.panel).waitFor();
  await home.killDaemon();
  await window.panel.getByText("Picked up after a restart").waitFor();
  await window.shot(`22-restarted-${words.slice(0, 3)}`);
  await window.panel.getByRole("button", { name: /Stop the turn/ }).click();
  await window.say("also make it shorter");
  await window.panel.getByText("Shorter it is.").waitFor();
  expect(await window.panel.locator(".ap, .vb:text-is('Running')").count()).toBe(0);
});

test("d06: a window that comes to a session which ended in an error sees the error and what was said before", async () => {
  const root = await begin("error");
  await window.say("break off", "Trusted");
  await window.panel.getByText("the provider has had enough").first().waitFor();
  const other = await editor.open(root);
  try {
    await other.openPanel();
    await other.panel.getByRole("button", { name: /New session/ }).click();
    await other.panel.locator(".srow").first().click();
    await other.panel.getByText("Half of an answer, and then").waitFor();
    await other.panel.getByText(/^In sync/).waitFor();
    await other.shot("25-error");
    const words = (of: Window): Promise<string> => of.panel.locator(".conv").innerText();
    await until("the same words", async () => (await words(other)) === (await words(window)));
  } finally {
    await other.close();
  }
});

test("steer and queue while the model speaks; a queued message is edited and removed", async () => {
  await begin("steer");
  await window.say("steer me", "Trusted");
  await window.panel.getByText("I begin with a long thought").waitFor();
  await window.sayMeanwhile("later please");
  await window.panel.getByRole("button", { name: "Queue", exact: true }).click();
  await window.panel.locator(".queue", { hasText: "later please" }).waitFor();
  await window.composer.fill("half a thought");
  await window.panel.getByRole("button", { name: "Edit queued message" }).click();
  await window.panel.getByText("Editing a queued message.").waitFor();
  await window.composer.press("Escape");
  expect(await window.composer.inputValue()).toBe("half a thought"); // what was typed before is there again
  await window.panel.getByRole("button", { name: "Edit queued message" }).press("Enter");
  await window.composer.fill("later please, and thank you");
  await window.shot("23-editing-queued");
  await window.composer.press("Enter");
  await window.panel.locator(".queue", { hasText: "and thank you" }).waitFor();
  await until("the earlier words", async () => (await window.composer.inputValue()) === "half a thought");
  await window.panel.getByRole("button", { name: "Remove queued message" }).press("Delete");
  await window.panel.locator(".queue").waitFor({ state: "detached" });
  await window.sayMeanwhile("use two lines");
  await window.shot("23-three-ways");
  await window.panel.getByRole("button", { name: /^Steer/ }).click();
  await window.panel.getByText("Steered: read as").waitFor();
  home.release("go-steer");
  await window.panel.getByText("Two lines, as you said.").waitFor();
  await window.shot("24-steered");
});

test("interrupt stops what runs and begins the next turn", async () => {
  await begin("interrupt");
  await window.say("interrupt me", "Trusted");
  await window.panel.locator(".vb", { hasText: "Running" }).waitFor();
  await window.sayMeanwhile("forget it");
  await window.panel.getByRole("button", { name: "Interrupt", exact: true }).click();
  await window.panel.getByText("Forgotten. The new task is done.").waitFor();
  await window.panel.locator(".vb", { hasText: "Late result" }).waitFor();
  await window.panel.getByText("Stopped", { exact: true }).waitFor();
});

test("d06: two windows on one folder see the same session grow to the same end", async () => {
  const root = await begin("twice");
  await window.say("seen twice", "Trusted");
  await window.panel.getByText("Both windows see").waitFor();
  const other = await editor.open(root);
  try {
    await other.openPanel();
    await other.panel.getByRole("button", { name: /New session/ }).click();
    await other.panel.locator(".srow").first().click();
    await other.panel.getByText("Both windows see").waitFor();
    home.release("go-twice");
    for (const each of [window, other]) {
      await each.panel.getByText("line by line.").waitFor();
      await each.panel.getByText(/^In sync/).waitFor();
    }
  } finally {
    await other.close();
  }
});

test("d06: a card that waits in two windows is answered in one, and the other says where", async () => {
  const root = await begin("asked twice");
  await window.say("ask before you run", "Trusted");
  await window.panel.locator(".ap").waitFor();
  const other = await editor.open(root);
  try {
    await other.openPanel();
    await other.panel.getByRole("button", { name: /New session/ }).click();
    await other.panel.locator(".srow").first().click();
    await other.answerBy(/Allow once/);
    const [here, there] = [window.panel.locator(".done"), other.panel.locator(".done")];
    await here.getByText("Allowed in another window").waitFor();
    await there.getByText("Allowed once").waitFor();
    const who = await here.locator(".who").innerText();
    expect(who).toMatch(/^you · .+ · #\d+$/);
    expect(await there.locator(".who").innerText()).toBe(who);
    expect(await window.panel.locator(".ap").count()).toBe(0);
    await window.panel.getByText("It ran.").waitFor();
    await window.shot("26-answered-elsewhere");
  } finally {
    await other.close();
  }
});
