/** What approval cards of each kind show: where words come from, what leaves, and all of it in a narrow panel too. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { THEME_KEYS, violationsInEveryTheme } from "./kit/access.ts";
import { Editor } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { call, scene } from "./kit/script.ts";

const READ_LINE = "floor = parse_retry_after(response.headers, now)";
const FILES = {
  "retry.py": `def pause(response, now, jitter):\n    ${READ_LINE}\n    return max(floor, jitter)\n`,
  "old.py": "x = 1\n",
  ".env": "SHOP_TOKEN=not-a-real-one\n",
};
const BODY = JSON.stringify({
  body: `Cause: the date form reaches float().\n\n    ${READ_LINE}\n    return max(floor, jitter)\n\nFixed on a branch\u200b.`,
});
const POST = {
  url: "https://tracker.example.org/api/issues/214/comments",
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: BODY,
};
const INSTALL = ["python3", "-m", "pip", "install", "freezegun\u200b==1.5.1", "--extra-index-url", "https://pkgs.example.net:8443/simple"];
const PUSH = ["git", "push", "--force-with-lease", "origin", "fix/retry-after"];
const ONE_EACH = [
  ["install it", "command", call("run_command", { argv: INSTALL })],
  ["push it", "push", call("run_command", { argv: PUSH })],
  ["delete it", "delete", call("delete_file", { path: "old.py" })],
  ["settle it", "write", call("write_file", { path: "conftest.py", content: "import sys\n\nsys.path.insert(0, 'src')\n" })],
  ["reveal it", "secret", call("read_file", { path: ".env" })],
] as const;

let home: Home;
let editor: Editor;
let window: Window;

beforeAll(async () => {
  home = new Home({
    name: "e2e",
    steps: [
      ...ONE_EACH.flatMap(([word, , asked]) => scene(word, { text: "I ask first.\n", calls: [asked] }, { text: `No ${word}.` })),
      ...scene(
        "post it",
        { text: "I look first.\n", calls: [call("read_file", { path: "retry.py" })] },
        { calls: [call("http_request", POST)] },
        { text: "Not sent." },
      ),
      ...scene("give it away", { calls: [call("read_file", { path: ".env" })] }, { calls: [call("http_request", POST)] }, { text: "It stays here." }),
    ],
  });
  editor = await Editor.start(home, { keys: THEME_KEYS });
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-cards");
    console.error(editor.extensionLog().slice(-3000));
  }
  await window?.close();
});

async function begin(name: string, width: number): Promise<void> {
  window = await editor.open(home.workspace(name, FILES), { size: { width: 1180, height: 1080 } });
  await window.openPanel();
  await window.widen(width);
}

/** The row of a card's facts with this term. */
function fact(term: string): Promise<string> {
  return window.panel
    .locator(".ap dt", { hasText: new RegExp(`^${term}$`) })
    .locator("+ dd")
    .first()
    .innerText();
}

test("a card of each kind says who chose its words, what it may read, and what can't be undone", async () => {
  await begin("kinds", 440);
  for (const [at, [word, name]] of ONE_EACH.entries()) {
    await window.say(word, at === 0 ? "Trusted" : null);
    await window.panel.locator(".ap").waitFor();
    await window.shot(`70-card-${name}`);
    if (name === "command") {
      expect(await fact("From")).toBe("Your messages");
      expect(await fact("Can read")).toBe("its copy of this project");
      await window.panel.locator(".ap .about", { hasText: /asked .+\d/ }).waitFor();
      expect(await violationsInEveryTheme(window, "card-command")).toEqual([]);
    }
    await window.answerBy(/Deny/);
    await window.panel.getByText(`No ${word}.`).waitFor();
  }
  expect(await window.panel.locator(".done").count()).toBe(ONE_EACH.length);
  await window.shot("70-answered");
});

test("what a request sends is shown to the byte, with where it also stands, and is sent as it is stored", async () => {
  await begin("sends", 440);
  await window.say("post it", "Trusted");
  const card = window.panel.locator(".ap");
  await card.getByText("Send this request?").waitFor();
  expect(await fact("To")).toBe("https://tracker.example.org:443");
  expect(await fact("Request")).toBe("POST /api/issues/214/comments");
  const size = Buffer.byteLength(BODY);
  await card.getByText(`Exact bytes, ${size} of ${size} shown · 1 hidden character, escaped`).waitFor();
  expect(await card.locator(".payload li").allInnerTexts()).toEqual([BODY.replace("\u200b", "⟨U+200B⟩")]);
  expect(await card.locator(".payload .src").allInnerTexts()).toEqual([READ_LINE, "return max(floor, jitter)"]);
  await card.getByText("Also in retry.py, as it was read: 1 line").waitFor();
  expect(await fact("From")).toContain("ext of this project");
  expect(await fact("Data")).toBe("Nothing that led here is marked confidential.");
  expect(await fact("Secrets")).toBe("None found. A scan can miss one.");
  expect(await fact("SHA-256")).toMatch(/^[0-9a-f]{12}…[0-9a-f]{8} of the stored request, \d+ bytes$/);
  await card.getByText("Sends these stored bytes, once. Any change asks again.").waitFor();
  expect(await violationsInEveryTheme(window, "card-sends")).toEqual([]);
  await card.getByRole("button", { name: /Send once/ }).waitFor();
  await window.answerBy(/Deny/);
  await window.panel.getByText("Not sent.").waitFor();
});

test("a payload that its place may not read is held back, and says whose it is", async () => {
  await begin("held", 440);
  await window.say("give it away", "Trusted");
  await window.panel.locator(".ap").getByText("Read this secret?").waitFor();
  await window.answerBy(/Allow once/);
  const card = window.panel.locator(".ap");
  await card.getByText("Release this payload once?").waitFor();
  await card.getByText("Held back: tracker.example.org may not read all of what could be in it.").waitFor();
  expect(await fact("From")).toContain("the secret .env");
  expect(await fact("Data")).toMatch(/^Confidential\. May be read by the model’s provider /);
  await card.getByRole("button", { name: /Release once/ }).waitFor();
  await window.shot("71-held-back");
  await window.answerBy(/Keep blocked/);
  await window.panel.getByText("It stays here.").waitFor();
});

test("in a narrow panel nothing of a card is cut", async () => {
  await begin("narrow", 300);
  for (const [at, word] of ["post it", "install it"].entries()) {
    await window.say(word, at === 0 ? "Trusted" : null);
    const card = window.panel.locator(".ap");
    await card.waitFor();
    const cut = await card.evaluate((element) => {
      const edge = element.getBoundingClientRect().right;
      const all = [...element.querySelectorAll<HTMLElement>("*")].filter((one) => one.getClientRects().length > 0);
      const over = all.filter(
        (one) => one.getBoundingClientRect().right > edge + 0.5 || (one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0),
      );
      return [element.getBoundingClientRect().width < 300, over.map((one) => `${one.className}: ${one.textContent.slice(0, 60)}`)];
    });
    expect(cut).toEqual([true, []]);
    await window.shot(`72-narrow-${at}`);
    await window.answerBy(/Deny/);
    await window.panel.locator(".done").nth(at).waitFor();
  }
  const who = await window.panel
    .locator(".done .who")
    .first()
    .evaluate((element) => element.scrollWidth <= element.clientWidth + 1);
  expect(who).toBe(true);
});
