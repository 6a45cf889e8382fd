/** The user's word in a session's record: an unknown outcome, an erased text, rules of its own; what a command shows while it runs. */

import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Locator } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { SessionInfo } from "../../protocol/typescript/wire.ts";
import { THEME_KEYS, violationsInEveryTheme } from "./kit/access.ts";
import { Editor, shown } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { call, scene } from "./kit/script.ts";
import type { Step } from "./kit/script.ts";

const SECRET = "tok-93Q7-xyzzy";
const THEIRS = [
  "version = 1",
  "[[rule]]",
  'id = "here.theirs"',
  'effects = ["install"]',
  'verdict = "deny"',
  'justification = "No."',
  'match = [{ effect = "install", target = "any" }]',
].join("\n");
const LINES = 61;
const COUNT = `import time\nfor n in range(1, ${LINES + 1}): print("round", n, flush=True)\ntime.sleep(3600)`;
const REACH = [
  "import os, sys, urllib.request, urllib.error",
  'os.environ.pop("NO_PROXY"), os.environ.pop("no_proxy")',
  'opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))',
  "for url in sys.argv[1:]:",
  "    try: print(opener.open(url, timeout=60).status)",
  "    except urllib.error.HTTPError as error: print(error.code)",
].join("\n");
const python = (code: string, ...words: readonly string[]): readonly string[] => ["python3", "-c", code, ...words];

function steps(allowed: number, other: number): readonly Step[] {
  const urls = [allowed, other].map((port) => `http://127.0.0.1:${port}/`);
  return [
    ...scene("lose it", { text: "I run it.\n", calls: [call("run_command", { argv: ["sleep", "3600"] })] }),
    ...scene("remember", { text: `I keep ${SECRET} in mind.` }),
    ...scene("count loudly", { text: "I count.\n", calls: [call("run_command", { argv: python(COUNT) })] }, { text: "Counted." }),
    ...scene(
      "reach out",
      { text: "I ask.\n", calls: [call("run_command", { argv: ["python3", "reach.py", ...urls], network: [`127.0.0.1:${allowed}`] })] },
      { text: "I asked both." },
    ),
    ...scene("write a note", { text: "I write.\n", calls: [call("write_file", { path: "notes/a.txt", content: "x\n" })] }, { text: "So be it." }),
    ...scene("who are you", { text: "The first model." }),
  ];
}

let home: Home;
let editor: Editor;
let window: Window;
let servers: readonly Server[];

const quick = (words: string) => window.page.locator(".quick-input-list .monaco-list-row", { hasText: words }).first();
const box = () => window.page.locator(".quick-input-widget input");

async function listening(): Promise<Server> {
  const server = createServer((_, reply) => reply.end("hello"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

beforeAll(async () => {
  servers = [await listening(), await listening()];
  const [allowed = 0, other = 0] = servers.map((one) => (one.address() as AddressInfo).port);
  const second = { name: "second", steps: scene("who are you", { text: "The second model." }) };
  const settings = `[network]\nplaces = ["127.0.0.1:${allowed} loopback"]\n`;
  home = new Home({ name: "e2e", steps: steps(allowed, other) }, { others: { second }, settings });
  editor = await Editor.start(home, { keys: THEME_KEYS });
  window = await editor.open(home.workspace("record", { "a.txt": "one\n", "reach.py": REACH }), { size: { width: 1360, height: 900 } });
  await window.openPanel();
});

afterAll(async () => {
  servers?.forEach((one) => one.close());
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-record");
    console.error(editor.extensionLog().slice(-3000));
  }
});

test("the first message is a plan by the model that was chosen before; another one answers from the next message on", async () => {
  const pick = (name: string): Locator => window.panel.locator(".tb").getByRole("button", { name, exact: true });
  const row = (name: string): Locator => window.page.locator(`.quick-input-list .monaco-list-row[aria-label^="${name},"]`);
  await pick("test").click(); // before there is a session
  await row("second").click();
  await pick("second").waitFor();
  await pick("Agent").click();
  await row("Plan").click();
  await pick("Plan").waitFor();
  await window.say("who are you", "Trusted");
  await window.panel.getByText("The second model.").waitFor();
  const { connection } = await home.connect();
  const { sessionId } = (await connection.call("session/list", {})).sessions[0] as SessionInfo;
  expect(await connection.call("session/show", { sessionId })).toMatchObject({ mode: "plan", info: { model: "second" } });
  await connection.close();
  await pick("Plan").click();
  await row("Agent").click();
  await pick("Agent").waitFor();
  await pick("second").click();
  await window.page.locator(".quick-input-list", { hasText: "in use" }).waitFor();
  await row("test").click();
  await pick("test").waitFor();
  await window.say("who are you, now");
  await window.panel.getByText("The first model.").waitFor();
});

test("while a command runs its newest lines stand below it, with their number; all of them open, and Stop ends it", async () => {
  await window.say("count loudly");
  await window.answerBy(/Allow once/);
  const row = window.panel.locator(".toolrow", { hasText: "Running" });
  await row.getByText(`Last 6 of ${LINES} lines`).waitFor();
  expect((await row.locator("pre").innerText()).split("\n")).toEqual(["56", "57", "58", "59", "60", "61"].map((n) => `round ${n}`));
  await window.shot("70-live-output");
  await row.getByRole("button", { name: "Open output" }).click();
  await window.page.locator(".view-line", { hasText: "round 1" }).first().waitFor();
  await row.getByRole("button", { name: "Stop", exact: true }).click();
  await window.panel.locator(".vb", { hasText: "Stopped" }).waitFor();
  await window.panel.getByRole("button", { name: /Stop the turn/ }).waitFor({ state: "detached" });
});

test("what the sandbox kept from being reached stands beside the row", async () => {
  await window.say("reach out");
  await window.answerBy(/Allow once/);
  await window.panel.getByText("I asked both.").waitFor();
  const port = (servers[1]?.address() as AddressInfo).port;
  await window.panel.locator(".beside").getByText(`Blocked by sandbox: 127.0.0.1:${port}`).waitFor();
  await window.shot("71-blocked");
});

test("a rule of this session is added by three picks, refuses, stands in the tree, and is removed there", async () => {
  await window.command("Gloveport: Add a Rule to This Session");
  await quick("Changing files").click();
  await quick("Refuse it").click();
  await box().fill("notes/**");
  await box().press("Enter");
  await window.show("Gloveport Rights");
  const rule = window.page.getByRole("treeitem", { name: /Deny: Changing files .notes/ });
  await rule.waitFor();
  await window.shot("72-rules");
  await window.openPanel();
  await window.say("write a note");
  await window.panel.getByText("So be it.").waitFor();
  await window.panel.locator(".toolrow", { hasText: "by rule" }).waitFor();
  await window.command("Gloveport: Edit the Rules of This Session");
  await window.page.locator(".view-line", { hasText: "here.deny-write" }).waitFor();
  await window.show("Gloveport Rights");
  await window.rowAction(rule, /Remove Rule/);
  await rule.waitFor({ state: "detached" });
  await window.page.locator(".view-line", { hasText: "here.deny-write" }).waitFor({ state: "detached" }); // the open text is the daemon's
  await window.openPanel();
  await window.say("write a note, once more");
  await window.panel.locator(".files").waitFor();
});

test("rules are given by saving their text; what the daemon refuses is told, and changes nothing", async () => {
  await window.command("Gloveport: Edit the Rules of This Session");
  const text = window.page.locator(".editor-instance .view-lines").last();
  await text.click();
  await window.page.keyboard.press("Control+a");
  await window.page.keyboard.type("version = 2");
  await window.command("File: Save");
  await window.page.locator(".notification-toast", { hasText: "expected version = 1" }).waitFor();
  await window.shot("73-rules-refused");
  await window.page.keyboard.press("Escape");
  await text.click();
  await window.page.keyboard.press("Control+a");
  await window.page.keyboard.press("Delete");
  await window.command("File: Save");
  await window.page.locator(".tab.active.dirty").waitFor({ state: "detached" });
  await window.command("View: Close All Editors");
});

test("rules that another client gave while a text was typed are not replaced by it, also where it is to be overwritten", async () => {
  const { connection } = await home.connect();
  const { sessionId } = (await connection.call("session/list", {})).sessions[0]!;
  await window.command("Gloveport: Edit the Rules of This Session");
  const text = window.page.locator(".editor-instance .view-lines").last();
  await text.click();
  await window.page.keyboard.press("Control+a");
  await window.page.keyboard.type("version = 1");
  await connection.call("session/rules", { clientRequestId: "theirs", sessionId, text: THEIRS });
  await window.command("File: Save");
  await (await window.toast("content of the file is newer")).getByRole("button", { name: "Overwrite" }).click();
  await window.toast("The rules were changed since this text was read, so nothing was saved");
  await window.shot("74-rules-changed-meanwhile");
  expect((await connection.call("policy/show", { sessionId })).ownText).toBe(THEIRS);
  await window.page.locator(".tab.active.dirty").waitFor(); // nothing of what was typed is lost
  await window.command("File: Revert File");
  await window.page.locator(".view-line", { hasText: "here.theirs" }).waitFor();
  await window.command("View: Close All Editors");
  await connection.call("session/rules", { clientRequestId: "away", sessionId, text: "" });
  await connection.close();
});

test("a text is erased: asked for, its session's mark typed, confirmed with what goes; then nothing shows or holds it", async () => {
  await window.say(`remember ${SECRET}`);
  await window.panel.getByText(`I keep ${SECRET} in mind.`).waitFor();
  await window.command("Gloveport: Open Transcript");
  await window.page.locator(".tab.active", { hasText: ".txt" }).waitFor();
  await window.command("Gloveport: Erase a Text from This Session’s Record");
  await window.page.locator(".quick-input-titlebar", { hasText: "1 of 2" }).waitFor();
  await box().fill(SECRET);
  await box().press("Enter");
  await window.page.locator(".quick-input-titlebar", { hasText: "2 of 2" }).waitFor();
  const asked = (await window.page.locator(".quick-input-message").innerText()).match(/Type (\w+) to go on/);
  await box().fill(asked?.[1] ?? "");
  await box().press("Enter");
  const dialog = window.page.locator(".monaco-dialog-box");
  await dialog.getByText("This can’t be undone").waitFor();
  await window.shot("74-erase");
  await dialog.getByRole("button", { name: "Erase", exact: true }).click();
  await dialog.getByText(/^Erased from session/).waitFor();
  await dialog.getByText(/audit log/).waitFor();
  await window.shot("75-erased");
  await dialog.getByRole("button", { name: "OK" }).click();
  await window.panel.getByText(/A text was erased from this record/).waitFor();
  await until("the panel without it", async () => !(await window.panel.locator("body").innerText()).includes(SECRET));
  await window.page.locator(".view-line", { hasText: "This held a text that was erased" }).waitFor();
  await window.panel.getByText(/^In sync/).waitFor();
  const holders = readdirSync(home.data, { recursive: true, encoding: "utf8", withFileTypes: true })
    .filter((one) => one.isFile() && /^journal|blob/.test(one.name + one.parentPath))
    .filter((one) => readFileSync(join(one.parentPath, one.name)).includes(SECRET));
  expect(holders.map((one) => one.name)).toEqual([]);
});

test("a call whose outcome nobody knows: the key asks what became of it, and the row then says whose word it is", async () => {
  await window.say("lose it");
  await window.panel.locator(".vb", { hasText: "Running" }).waitFor();
  await home.killKeeper();
  const row = window.panel.locator(".toolrow", { hasText: "Outcome unknown" });
  await row.getByRole("button", { name: "It happened" }).waitFor();
  await window.panel.getByRole("button", { name: /Stop the turn/ }).waitFor({ state: "detached" });
  await window.shot("76-unknown");
  expect(await violationsInEveryTheme(window, "unknown")).toEqual([]);
  const askByKey = (): Promise<boolean> =>
    until("the key to ask", async () => {
      await window.page.keyboard.press("Alt+u"); // once more where the editor had not heard yet that there is something to ask
      return shown(quick("It did not happen"));
    });
  await askByKey();
  await quick("Leave it").click();
  await row.getByRole("button", { name: "It happened" }).waitFor();
  await askByKey();
  await quick("It did not happen").click();
  const dialog = window.page.locator(".monaco-dialog-box");
  await dialog.getByText("can’t be taken back").waitFor();
  await dialog.getByRole("button", { name: "It did not happen" }).click();
  await window.panel.locator(".told", { hasText: "did not take effect" }).waitFor();
  await row.getByText("You said: it did not happen.").waitFor();
  expect(await row.getByRole("button", { name: "It happened" }).count()).toBe(0);
  await window.shot("77-settled");
});

test("in a restricted window nothing of a record is said, erased or ruled, and that is told", async () => {
  const other = await editor.open(home.workspace("strict", { "b.txt": "one\n" }), { trust: "no" });
  try {
    await other.openPanel();
    await other.panel.getByText("This workspace is restricted.").waitFor();
    await other.panel.getByRole("button", { name: /New session/ }).click();
    await other.panel.locator(".srow", { hasText: "who are you" }).first().click();
    await other.panel.getByText("You said: it did not happen.").waitFor();
    await until("the list of commands", async () => {
      await other.page.keyboard.press("F1");
      return shown(other.page.locator(".quick-input-widget input"));
    });
    await other.page.locator(".quick-input-widget input").fill(">Gloveport: Open");
    await other.page.locator(".quick-input-list .monaco-list-row", { hasText: "Gloveport: Open Transcript" }).waitFor();
    for (const title of ["Erase a Text", "Add a Rule", "Say What Became"]) {
      await other.page.locator(".quick-input-widget input").fill(`>Gloveport: ${title}`);
      expect(await other.page.locator(".quick-input-list .monaco-list-row", { hasText: `Gloveport: ${title}` }).count()).toBe(0);
    }
  } finally {
    await other.close();
  }
});

test("a folder that is no project is refused before anybody is asked how far it is trusted", async () => {
  const other = await editor.open(home.dir, { trust: "yes" });
  try {
    await other.openPanel();
    await other.composer.fill("who are you");
    await other.composer.press("Enter");
    await other.panel.locator(".told").getByText(/home/).waitFor();
    expect(await other.page.locator(".quick-input-list .monaco-list-row", { hasText: "Restricted" }).count()).toBe(0);
    expect(await other.composer.inputValue()).toBe("who are you");
    await other.shot("78-no-project");
  } finally {
    await other.close();
  }
});
