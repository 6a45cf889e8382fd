/** The main way: ask, stream, painted text, in a real window against the real daemon. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import { Home } from "./kit/home.ts";
import { scene } from "./kit/script.ts";

const HELLO = scene("hello there", {
  text: "Good morning. This text **streams** into the side bar, with `code` in it.\n\n- one\n- two\n",
  chunk_chars: 6,
  delay_ms: 8,
});

let home: Home;
let editor: Editor;

beforeAll(async () => {
  home = new Home({ name: "e2e", steps: [...HELLO] });
  editor = await Editor.start(home);
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

test("a first message starts the daemon, asks for trust, and its answer is painted", async () => {
  const window = await editor.open(home.workspace("hello", { "a.txt": "one\n" }));
  await window.openPanel();
  expect(home.daemonPid).not.toBeNull();
  await window.say("hello there", "Trusted");
  await window.panel.getByText("streams").waitFor();
  await window.panel.locator(".say li", { hasText: "two" }).waitFor();
  await window.panel.getByText(/^In sync/).waitFor();
  await window.shot("hello");
  await window.close();
});
