/** What approval cards of each kind show: where words come from, what leaves, and all of it in a narrow panel too. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { THEME_KEYS, violationsInEveryTheme } from "./kit/access.ts";
import { Editor } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home, TREE } from "./kit/home.ts";
import { PanelPage } from "./kit/page.ts";
import { call, scene } from "./kit/script.ts";

const READ_LINE = "floor = parse_retry_after(response.headers, now)";
const FILES = {
  "retry.py": `def pause(response, now, jitter):\n    ${READ_LINE}\n    return max(floor, jitter)\n`,
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
  ["delete it", "delete", call("run_command", { argv: ["rm", "-rf", "build"] })],
  ["settle it", "write", call("write_file", { path: "conftest.py", content: "import sys\n\nsys.path.insert(0, 'src')\n" })],
  ["reveal it", "secret", call("read_file", { path: ".env" })],
] as const;

/** Every card whose words were reviewed. */
const CARDS = JSON.parse(readFileSync(join(TREE, "tests/golden/cards.json"), "utf8")) as Readonly<
  Record<string, { readonly card?: Readonly<Record<string, unknown>>; readonly risk: string; readonly reason: string }>
>;

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
  window = await editor.open(home.workspace(name, FILES), { size: { width: 1180, height: 1300 }, scale: 2 });
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
  await window.shotOf(card, "71-sends");
  await window.answerBy(/Deny/);
  await window.panel.getByText("Not sent.").waitFor();
});

test("a payload that its place may not read is held back, and says whose it is", async () => {
  await begin("held", 440);
  await window.say("give it away", "Trusted");
  await window.panel.locator(".ap").getByText("Read this file?").waitFor();
  await window.answerBy(/Allow once/);
  const card = window.panel.locator(".ap");
  await card.getByText("Release this payload once?").waitFor();
  await card.getByText("Held back: tracker.example.org may not read all of what could be in it.").waitFor();
  expect(await fact("From")).toContain("he secret .env");
  expect(await fact("Data")).toMatch(/^Confidential\. May be read by the model’s provider /);
  await card.getByRole("button", { name: /Release once/ }).waitFor();
  await window.shot("71-held-back");
  await window.answerBy(/Keep blocked/);
  await window.panel.getByText("It stays here.").waitFor();
});

test("in a narrow panel nothing of any reviewed card is cut, nor who answered it", async () => {
  const page = await PanelPage.open();
  try {
    await page.page.setViewportSize({ width: 300, height: 900 });
    await page.page.addStyleTag({
      content: ":root { --vscode-font-size: 13px; --vscode-font-family: sans-serif; --vscode-editor-font-family: monospace }",
    });
    const cut = (): Promise<readonly string[]> =>
      page.locator(":is(.ap, .done)").evaluate((element) => {
        const edge = element.getBoundingClientRect().right;
        const seen = [...element.querySelectorAll<HTMLElement>("*:not(.ell, .ell *, svg *)")].filter((one) => one.getClientRects().length > 0);
        const hides = (one: HTMLElement): boolean => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1;
        const over = seen.filter((one) => one.getBoundingClientRect().right > edge + 0.5 || hides(one));
        return over.map((one) => `${one.tagName} ${one.textContent.slice(0, 60)}`);
      });
    const reviewed = Object.entries(CARDS).filter(([name, row]) => row.card !== undefined && !name.includes("("));
    expect(reviewed.length).toBeGreaterThan(50);
    const long = "apathwithoutabreak".repeat(6);
    const added = { kind: "write", target: long, words: `write \`${long}\``, notes: [long] };
    for (const [name, { card, risk, reason }] of reviewed) {
      const effects = [...((card?.["effects"] ?? []) as readonly unknown[]), added];
      const fields = { card: { ...card, effects, risk, reason, summary: `One line about ${name}` }, cardDigest: "d", askedAt: 1_796_029_260_000_000 };
      await page.load([{ id: `approval/${name}`, kind: "approval", fields: { ...fields, state: "pending" } }]);
      await page.locator(".ap").getByRole("heading", { level: 3 }).waitFor();
      expect([name, await cut()]).toEqual([name, []]);
    }
    const [name, { card }] = reviewed[0] as (typeof reviewed)[number];
    const ended = { card, state: "allowed", scope: "workspace", by: "gloveport-cli", answeredAt: 1_796_029_260_000_000, answeredSeq: 1_234_567 };
    await page.load([{ id: `approval/${name}`, kind: "approval", fields: ended }]);
    await page.locator(".done .who").getByText("1,234,567").waitFor();
    expect(await cut()).toEqual([]);
  } finally {
    await page.close();
  }
});
