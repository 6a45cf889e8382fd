/** The panel's page alone in a browser: what it draws of what it is given, where keys lead, and what it asks for. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { PanelPage } from "./kit/page.ts";

let panel: PanelPage;

beforeAll(async () => {
  panel = await PanelPage.open();
});

afterAll(async () => {
  await panel?.close();
});

const tool = (id: string, fields: ViewItem["fields"]): ViewItem => ({ id: `tool/${id}`, kind: "tool", fields: { tool: "run_command", ...fields } });
const LOST = { arguments: '{"argv":["alembic","upgrade"]}', state: "lost" };

test("a call whose outcome nobody knows offers both sayings by keys, and then says whose word it is", async () => {
  await panel.load([tool("c1", LOST)]);
  const row = panel.locator(".toolrow");
  const offer = row.getByRole("group", { name: "What became of it" });
  await offer.getByText("Look first: your answer runs nothing.").waitFor();
  await offer.getByRole("button", { name: "It did not happen" }).press("Enter");
  expect(await panel.asked("settle")).toEqual([{ type: "settle", callId: "c1", said: "not_done" }]);
  await panel.upsert(tool("c1", { said: "not_done", saidBy: "vscode" }));
  await row.getByText("You said: it did not happen. It is your word; nobody else knows.").waitFor();
  await row.getByText("you say it did not happen").waitFor();
  await row.getByText("Outcome unknown", { exact: true }).waitFor(); // the record says so still
  expect(await offer.count()).toBe(0);
});

test("what is selected in the panel is what it says when it is asked for a text to erase", async () => {
  await panel.load([{ id: "message/1", kind: "message.user", fields: { text: "the tok-5512 of it", state: "delivered" } }]);
  await panel.locator(".ask .words").evaluate((words) => {
    const range = words.ownerDocument.createRange();
    range.setStart(words.firstChild!, 4);
    range.setEnd(words.firstChild!, 12);
    words.ownerDocument.getSelection()?.addRange(range);
  });
  await panel.post({ type: "selection" });
  expect(await panel.asked("selection")).toEqual([{ type: "selection", text: "tok-5512" }]);
});

test("files that nobody looked through, and a frozen session's way on, stand in the conversation", async () => {
  const frozen = { state: "frozen", words: "It wrote outside.", evidence: "a.py" };
  await panel.load([tool("c1", { state: "ok", unseen: 1, unseenPaths: ["build/big.bin"] }), { id: "freeze/1", kind: "freeze", fields: frozen }]);
  await panel.locator(".beside").getByText("Not looked through: build/big.bin.").waitFor();
  await panel.locator(".note").getByRole("button", { name: "Let it work again" }).click();
  expect(await panel.asked("verb")).toEqual([{ type: "verb", verb: "thawSession" }]);
  await panel.upsert({ id: "freeze/1", kind: "freeze", fields: { state: "thawed" } });
  await panel.locator(".note").getByText("may work again").waitFor();
  expect(await panel.locator(".note button").count()).toBe(0);
});
