/** How the panel's page stands at any width: nothing that decides is cut, no sign stands twice, a ring is not on a line. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { FileRow } from "../src/common/panel.ts";
import { PanelPage } from "./kit/page.ts";

const HEIGHT = 900;
const NARROW = 300;
/** What decides, or is pressed by its word. */
const WHOLE = ".pick.mode > span, .pick.sand > span, .chip, .chip .q, .files .btn, .files .stat, .meter, .meter .num";
const FILE: FileRow = {
  changeId: "c",
  path: "tests/conftest.py",
  name: "conftest.py",
  folder: "tests",
  kind: "create",
  added: 1_204,
  removed: 1_188,
  hunks: 1,
  digest: "d",
  alone: "Runs by itself: Python runs it.",
  refused: "",
  findings: [{ words: "Line 1 looks like a secret (aws access key).", excerpt: "" }],
};

let panel: PanelPage;

beforeAll(async () => {
  panel = await PanelPage.open();
  await panel.page.addStyleTag({ content: ":root { --vscode-focusBorder: #0078d4 }" }); // a theme would
  await panel.load([{ id: "message/1", kind: "message.user", fields: { text: "the first words", state: "delivered" } }]);
  const budget = {
    whose: "session",
    unit: "tokens",
    used: 12_400,
    limit: 1_000_000,
    running: false,
    ahead: false,
    uncounted: 0,
    words: "",
  } as const;
  const counted = { contextTokens: 128_300, unpriced: 3, tokens: 12_400, seq: 12_299, budget };
  await panel.state({
    ...counted,
    files: [FILE],
    trust: "restricted",
    model: "a-model-of-quite-a-long-name",
    modelLabel: "A model of quite a long name (no model)",
  });
  await panel.locator(".files .frow").waitFor();
});

afterAll(async () => {
  await panel?.close();
});

test.each([NARROW, 340, 400, 700])("at %d pixels no word that decides is cut, and nothing leaves the panel", async (width) => {
  await panel.page.setViewportSize({ width, height: HEIGHT });
  const cut = await panel.locator(WHOLE).evaluateAll((all) =>
    all
      .filter((one) => one.getClientRects().length > 0)
      .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline")
      .map((one) => `${one.classList.toString()}: ${one.textContent}`),
  );
  expect(cut).toEqual([]);
  const over = await panel
    .locator(".sess *, .dock *")
    .evaluateAll(
      (all, edge) =>
        all.filter((one) => one.getBoundingClientRect().right > edge && one.closest(".acts, .vh") === null).map((one) => one.textContent),
      width,
    );
  expect(over).toEqual([]);
  const model = panel.locator(".tb .pick").first();
  expect(await model.innerText()).toBe("a-model-of-quite-a-long-name"); // who answers stands in the hover
  expect(await model.getAttribute("title")).toContain("A model of quite a long name (no model)");
});

test("a file in which something was found bears one sign", async () => {
  await panel.locator(".files").getByText("looks like a secret").waitFor();
  expect(await panel.locator(".files li svg.warn").count()).toBe(1);
  await panel.state({ files: [{ ...FILE, alone: "" }] });
  expect(await panel.locator(".files li svg.warn").count()).toBe(1);
  await panel.state({ files: [{ ...FILE, alone: "", findings: [] }] });
  expect(await panel.locator(".files li svg.warn").count()).toBe(0);
});

test("the ring of a message with the focus stands off its own line", async () => {
  await panel.locator(".conv").focus();
  await panel.page.keyboard.press("End");
  const row = panel.locator(".item:focus", { has: panel.page.locator(".ask") });
  await row.waitFor();
  const [outer, box] = await row.evaluate((element) =>
    [element, element.firstElementChild!].map((one) => getComputedStyle(one)).map((one) => [one.outlineStyle, parseFloat(one.outlineOffset)]),
  );
  expect(outer![0]).toBe("none");
  expect(box).toEqual(["solid", 2]);
});
