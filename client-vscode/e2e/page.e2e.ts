/** The panel's page alone in a browser: what it draws of what it is given, where keys lead, and what it asks for. */

import type { Locator } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ViewItem } from "../../protocol/typescript/wire.ts";
import { violationsIn } from "./kit/access.ts";
import { contrastOn } from "../src/common/contrast.ts";
import type { FromPanel } from "../src/common/panel.ts";
import { PanelPage } from "./kit/page.ts";
import { until } from "./kit/processes.ts";

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
  const sayNot = offer.getByRole("button", { name: "It did not happen" });
  const settled = async (): Promise<readonly FromPanel[]> =>
    (await panel.page.evaluate<readonly FromPanel[]>("sent")).filter((one) => one.type === "settle");
  await until("the saying to be heard", async () => {
    await sayNot.press("Enter"); // not in its first moments
    return (await settled()).length > 0;
  });
  expect(await settled()).toEqual([{ type: "settle", callId: "c1", said: "not_done" }]);
  await panel.upsert(tool("c1", { said: "not_done", saidBy: "vscode" }));
  await row.getByText("You said: it did not happen. It is your word; nobody else knows.").waitFor();
  await row.getByText("you say it didn’t").waitFor();
  await row.getByText("Outcome unknown", { exact: true }).waitFor(); // the record says so still
  expect(await offer.count()).toBe(0);
});

test("a click in the very moment in which the sayings appear says nothing", async () => {
  await panel.load([tool("c2", { ...LOST, state: "running" })]);
  await panel.page.evaluate(
    `sent.length = 0; window.pressed = 0; new MutationObserver((_, mine) => { const found = document.querySelectorAll(".settle button"); found.forEach((one) => { one.click(); pressed += 1; }); if (found.length) mine.disconnect(); }).observe(document.body, { subtree: true, childList: true })`,
  );
  await panel.upsert(tool("c2", { state: "lost" }));
  await until("both to be pressed", async () => (await panel.page.evaluate<number>("pressed")) === 2);
  expect((await panel.page.evaluate<readonly FromPanel[]>("sent")).filter((one) => one.type === "settle")).toEqual([]);
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

test("while a command runs its last lines stand below with their number, fewer than a screen, and Stop beside them", async () => {
  const fields = { arguments: '{"argv":["pytest"]}', state: "running", output: "" };
  await panel.load([tool("c1", fields)], { turnId: "t", phase: "tools" });
  const out = panel.locator(".toolrow .out");
  expect(await out.isVisible()).toBe(false); // nothing was printed
  let offset = 0;
  for (let line = 1; line <= 61; line += 1) {
    const text = `round ${line}\n`;
    await panel.event({ op: "append", item: "tool/c1", field: "output", offset, text });
    offset += text.length;
  }
  await out.getByText("Last 6 of 61 lines").waitFor();
  expect(await out.locator("pre").innerText()).toBe("round 56\nround 57\nround 58\nround 59\nround 60\nround 61");
  await out.getByRole("button", { name: "Open output" }).press("Enter");
  expect((await panel.asked("openOutput")).at(-1)).toEqual({ type: "openOutput", itemId: "tool/c1" });
  await out.getByRole("button", { name: "Stop" }).press("Enter");
  expect((await panel.asked("verb")).at(-1)).toEqual({ type: "verb", verb: "cancel" });
  await panel.upsert(tool("c1", { state: "cancelled" }));
  await panel.locator(".toolrow").getByText("Stopped").waitFor();
  expect(await out.getByRole("button").count()).toBe(0); // a row that ended is closed
});

test("a name that looks like another is written out where it is seen, in its tooltip and in the names of its buttons", async () => {
  const file = { kind: "create", folder: "", added: 1, removed: 0, hunks: 1, alone: "", refused: "", findings: [] };
  const path = "a\ufe0f.py";
  await panel.load([], { files: [{ ...file, changeId: "c", digest: "d".repeat(64), path, name: path }] });
  const row = panel.locator(".files li");
  await row.getByText("a⟨U+FE0F⟩.py").waitFor();
  const attributes = await row.evaluate((li) => [li, ...li.querySelectorAll("*")].flatMap((one) => [...one.attributes].map(({ value }) => value)));
  expect(attributes.filter((one) => one.includes("\ufe0f"))).toEqual([]);
  expect(attributes.filter((one) => / a⟨U\+FE0F⟩\.py/.test(one)).length).toBeGreaterThan(0); // as "Keep …"
});

const CARD: ViewItem = {
  id: "approval/a1",
  kind: "approval",
  fields: {
    state: "pending",
    cardDigest: "d",
    card: {
      title: "Run this command?",
      risk: "medium",
      reason: "running a program",
      notes: ["A build tool runs what it says."],
      command: { text: "make all", words: ["make", "all"], cwd: ".", hidden_characters: 0 },
      options: [{ scope: "once", sentence: "run `make all`", uses: 1, lifetime_s: 600 }],
    },
  },
};
/** Of VS Code's own dark theme. */
const DARK = {
  "sideBar-background": "#181818",
  "editor-background": "#1f1f1f",
  foreground: "#cccccc",
  "editor-foreground": "#cccccc",
  "editorWarning-foreground": "#cca700",
  "textCodeBlock-background": "#2b2b2b",
  "button-background": "#0078d4",
  "button-foreground": "#ffffff",
  "button-secondaryBackground": "#313131",
  "button-secondaryForeground": "#cccccc",
  "dropdown-background": "#313131",
  "diffEditor-insertedLineBackground": "#9bb95533",
  "diffEditor-removedLineBackground": "#ff000033",
};

test.each<readonly [string, Readonly<Record<string, string>>]>([
  ["no word is seen", { foreground: "#1f1f1f00" }],
  ["the command is not seen", { "editor-foreground": "#1f1f1f" }],
  ["the command is as its ground", { "textCodeBlock-background": "#cccccc" }],
  ["what changes is not seen", { "diffEditor-insertedLineBackground": "#cccccc" }],
  ["what warns is not seen", { "editorWarning-foreground": "#00000000", foreground: "#1f1f1f01" }],
  ["what denies is not seen", { "button-secondaryForeground": "#313131" }],
])("colours of a folder hide nothing of a card: %s", async (_, chosen) => {
  const wear = (colours: Readonly<Record<string, string>>): Promise<void> =>
    panel.page.evaluate((all) => {
      document.documentElement.setAttribute(
        "style",
        Object.entries(all)
          .map(([name, value]) => `--vscode-${name}: ${value}`)
          .join(";"),
      );
    }, colours);
  await panel.load([CARD]);
  const line = panel.locator(".ap").getByText("has its own");
  const least = async (): Promise<number> => {
    const texts = await panel.locator(".ap h3, .ap .about, .ap .cmd, .ap .fx span, .ap .sum, .ap .btn").evaluateAll((all) =>
      all.map((one) => {
        const layers: string[] = [];
        for (let at: Element | null = one; at !== null; at = at.parentElement) {
          layers.unshift(getComputedStyle(at).backgroundColor);
        }
        return { colour: getComputedStyle(one).color, layers };
      }),
    );
    return Math.min(...texts.map(({ colour, layers }) => contrastOn(colour, layers)));
  };
  try {
    await wear(DARK);
    await line.waitFor({ state: "hidden" }); // control: a theme's own colours stay
    await wear({ ...DARK, ...chosen });
    await line.waitFor();
    expect(await least()).toBeGreaterThan(4.5);
    await wear(DARK);
    await line.waitFor({ state: "hidden" });
  } finally {
    await wear({});
  }
});

test("a folder's font does not draw the command of a card, and in the narrowest bar both answers are whole", async () => {
  await panel.load([CARD]);
  await panel.page.addStyleTag({ content: ":root { --vscode-editor-font-family: Wingdings }" });
  expect(await panel.locator(".ap .cmd").evaluate((box) => getComputedStyle(box).fontFamily)).not.toContain("Wingdings");
  await panel.page.setViewportSize({ width: 150, height: 900 });
  const buttons = panel.locator(".ap .act .btn");
  const places = await buttons.evaluateAll((all) =>
    all.map((one) => one.getBoundingClientRect()).map(({ left, right, top }) => ({ left, right, top })),
  );
  expect(places).toHaveLength(2);
  expect(places.every(({ left, right }) => left >= 0 && right <= 150)).toBe(true);
  expect(places[1]!.top).toBeGreaterThan(places[0]!.top);
  await panel.page.setViewportSize({ width: 400, height: 900 });
});

test("a row that is drawn anew keeps the focus", async () => {
  await panel.load([{ id: "apply/1", kind: "apply", fields: { state: "writing", action: "accept", paths: ["a.py"] } }]);
  await panel.locator(".conv").focus();
  await panel.page.keyboard.press("ArrowUp");
  await panel.locator(".item:focus", { hasText: "Writing" }).waitFor();
  await panel.upsert({ id: "apply/1", kind: "apply", fields: { state: "refused", message: "You changed this line." } });
  await panel.locator(".item:focus", { hasText: "Nothing was written" }).waitFor();
});

const LONG = 10_000;
/** More than a screen's rows with what is kept above and below; far fewer than there are. */
const ROWS_IN_PAGE_MAX = 200;

test("ten thousand rows: Home, End, Page and arrow keys lead there, the focus stays in the list, and the page stays small", async () => {
  const items = Array.from({ length: LONG }, (_, at) => ({
    id: `tool/n${at}`,
    kind: "tool",
    fields: { tool: "edit_file", title: `number ${at}`, state: "ok" },
  }));
  await panel.load(items);
  const focused = panel.locator(".conv .item:focus");
  const place = async (): Promise<number> => Number(await focused.getAttribute("aria-posinset"));
  const rows = async (): Promise<number> => panel.locator(".conv .item").count();
  const press = async (key: string): Promise<number> => {
    await panel.page.keyboard.press(key);
    await focused.waitFor();
    expect(await rows()).toBeLessThan(ROWS_IN_PAGE_MAX);
    const seen = await focused.evaluate((row) => {
      const [own, list] = [row.getBoundingClientRect(), row.closest(".conv")!.getBoundingClientRect()];
      return own.bottom > list.top && own.top < list.bottom;
    });
    expect(seen).toBe(true);
    return place();
  };
  await panel.locator(".conv").focus();
  expect(await press("End")).toBe(LONG);
  expect(await press("ArrowUp")).toBe(LONG - 1);
  expect(await press("Home")).toBe(1);
  expect(await press("ArrowDown")).toBe(2);
  const down = await press("PageDown");
  expect(down).toBeGreaterThan(10);
  expect(await press("PageDown")).toBeGreaterThan(down + 10);
  const up = await press("PageUp");
  expect(up).toBeLessThan(2 * down);
  while ((await press("PageUp")) > 1); // each is further up, so it ends
  await panel.locator(".conv").evaluate((list) => (list.scrollTop = list.scrollHeight / 2)); // as by a wheel
  await panel.locator(".conv:focus").waitFor();
  expect(await press("PageDown")).toBeGreaterThan(LONG / 3);
  await press("End");
  await panel.upsert(tool("new", { tool: "edit_file", title: "one more", state: "ok" }));
  await panel.locator(`.item:focus[aria-setsize="${LONG + 1}"]`).waitFor(); // a new row takes the focus from nobody
  expect(await place()).toBe(LONG);
});

test("an attachment is taken away by keys, and the cursor stays with what is left", async () => {
  await panel.load([]);
  for (const path of ["a/one.py", "two.py"]) {
    await panel.post({ type: "attach", attachment: { path, lines: null } });
  }
  const chips = panel.locator(".ctx .chip");
  await chips.nth(1).waitFor();
  await panel.page.getByRole("button", { name: "Remove one.py" }).press("Delete");
  expect(await chips.allInnerTexts()).toEqual(["two.py"]);
  await panel.locator("button[aria-label='Remove two.py']:focus").waitFor();
  await panel.page.keyboard.press("Enter");
  expect(await chips.count()).toBe(0);
  await panel.locator("textarea:focus").waitFor();
});

test("a step of the plan says what it is and how it stands, also to who does not see its sign", async () => {
  const steps = [
    { title: "Read the retry loop", state: "done" },
    { title: "Run the tests 20 times", state: "running" },
    { title: "Write it down", state: "pending" },
    { title: "Ask upstream", state: "dropped" },
  ];
  await panel.load([{ id: "plan", kind: "plan", fields: { items: steps } }]);
  const head = panel.page.getByRole("button", { name: /Plan 1\/4/ });
  expect(await head.innerText()).toContain("Run the tests 20 times");
  await head.press("Enter");
  const rows = panel.locator(".steps li");
  expect(await rows.allInnerTexts()).toEqual(steps.map((one) => one.title));
  expect(await rows.locator("svg, [role=img]").evaluateAll((signs) => signs.map((one) => one.getAttribute("aria-label")))).toEqual([
    "done",
    "running",
    "pending",
    "dropped",
  ]);
});

test("an answer of very many parts stays a page of few elements while it grows", async () => {
  const head = "|a|b|\n|-|-|\n";
  await panel.load([{ id: "answer/1", kind: "message.assistant", fields: { text: head, state: "streaming" } }]);
  let at = head.length;
  for (let n = 0; n < 29; n += 1) {
    const text = "|\n".repeat(1_000);
    await panel.event({ op: "append", item: "answer/1", field: "text", offset: at, text });
    at += text.length;
  }
  await panel.page.locator(".md pre", { hasText: "|\n".repeat(20_000) }).waitFor();
  expect(await panel.page.locator(".md *").count()).toBeLessThan(20);
});

test("the head of a turn gets its figures as soon as they are known", async () => {
  await panel.load([
    { id: "message/1", kind: "message.user", fields: { text: "do it", state: "delivered" } },
    { id: "turn/t1", kind: "turn", fields: { state: "completed", goalRevision: 1 } },
  ]);
  const head = panel.locator(".turnhead");
  await head.getByText("Turn 1 · trace").waitFor();
  await panel.state({ turns: { t1: { tookUs: 38_000_000, costNanoUsd: 50_000_000 } } });
  await head.getByText("Turn 1 · 38 s · $0.05 · trace").waitFor();
  await head.getByRole("button", { name: "Show the trace of this turn" }).press("Enter");
  expect((await panel.asked("trace")).at(-1)).toEqual({ type: "trace", turnId: "t1" });
});

test("looks that follow one another are one line that opens to each of them, by keys", async () => {
  const read = (id: string, path: string): ViewItem =>
    tool(id, { tool: "read_file", state: "ok", arguments: JSON.stringify({ path }), result: `text of ${path}` });
  await panel.load([read("c1", "a.py"), read("c2", "b.py")]);
  const row = panel.locator(".item", { hasText: "Read2 files" });
  await row.waitFor();
  await panel.locator(".conv").focus();
  await panel.page.keyboard.press("Home");
  await panel.page.keyboard.press("ArrowRight");
  const second = row.locator(".each summary", { hasText: "b.py" });
  await second.waitFor();
  await panel.page.keyboard.press("Tab");
  await panel.page.keyboard.press("Tab");
  await row.locator(".each summary:focus", { hasText: "b.py" }).waitFor();
  await panel.page.keyboard.press("Enter");
  await row.getByText("text of b.py").waitFor();
  await panel.upsert(tool("c2", { hints: [{ kind: "instruction_like", line: 1, excerpt: "obey" }] }));
  await panel.locator(".beside").getByText("reads like words to an agent").waitFor(); // it stands by itself from now on
  expect(await panel.locator(".item").count()).toBe(2);
});

test("before the first message mode, model and sandbox are chosen by keys, and stand as chosen", async () => {
  await panel.fresh();
  const pick = (name: string): Locator => panel.locator(".tb").getByRole("button", { name, exact: true });
  await pick("test").press("Enter");
  await pick("Agent").press("Enter");
  await pick("Sandbox: as the folder is trusted").press("Enter");
  const asked = (await panel.asked("verb")).slice(-3).map(({ verb }) => verb);
  expect(asked).toEqual(["chooseModel", "chooseMode", "chooseSandbox"]);
  await panel.fresh({ model: "qwen3-coder", modelLabel: "OpenAI-compatible model at host", mode: "plan", sandbox: "docker" });
  await pick("Plan").waitFor();
  await pick("Sandbox: docker").waitFor();
  expect(await pick("qwen3-coder").getAttribute("title")).toBe("Model of the next request: qwen3-coder, OpenAI-compatible model at host");
  expect(await violationsIn(panel.page.mainFrame(), false)).toEqual([]);
});

test("without a model the way on stands there before anything was asked, and goes when there is one", async () => {
  await panel.fresh({ model: "", modelLabel: "", noModelIn: "/c/config.toml" });
  const note = panel.locator(".note", { hasText: "No model is set up." });
  await note.getByText("into /c/config.toml.").waitFor();
  await note.getByRole("button", { name: "Keep a key" }).press("Enter");
  await note.getByRole("button", { name: "Open config.toml" }).press("Enter");
  expect((await panel.asked("verb")).slice(-2).map(({ verb }) => verb)).toEqual(["setKey", "openConfig"]);
  expect(await violationsIn(panel.page.mainFrame(), false)).toEqual([]);
  await panel.fresh();
  await note.waitFor({ state: "detached" });
});

test("a failure above the composer is told until something succeeds, and no longer", async () => {
  await panel.fresh();
  const told = panel.locator(".told");
  await panel.post({ type: "told", words: "It did not work.", bad: true });
  await told.getByText("It did not work.").waitFor();
  await panel.post({ type: "sent", ok: false, text: "" });
  expect(await told.innerText()).toContain("It did not work.");
  await panel.post({ type: "sent", ok: true, text: "" });
  await expect.poll(() => told.innerText()).toBe("");
  await panel.post({ type: "told", words: "Nor did this.", bad: true });
  await panel.post({ type: "done" });
  await expect.poll(() => told.innerText()).toBe("");
  await panel.post({ type: "told", words: "Put back: a.py", bad: false });
  await panel.post({ type: "done" });
  expect(await told.innerText()).toContain("Put back: a.py");
});

test("axe finds nothing against names and roles of any of these rows", async () => {
  const read = (id: string): ViewItem => tool(id, { tool: "read_file", state: "ok", arguments: '{"path":"a.py"}', result: "text" });
  await panel.load([
    { id: "message/1", kind: "message.user", fields: { text: "do it", state: "delivered" } },
    { id: "turn/t1", kind: "turn", fields: { state: "completed", goalRevision: 1 } },
    read("c1"),
    read("c2"),
    tool("c3", LOST),
    tool("c4", { ...LOST, said: "done" }),
    tool("c5", { state: "ok", unseen: 1, unseenPaths: ["x"] }),
    { id: "freeze/1", kind: "freeze", fields: { state: "frozen" } },
    { id: "erasure/1", kind: "erasure", fields: { events: 1, outputs: 0 } },
  ]);
  await panel.post({ type: "attach", attachment: { path: "a.py", lines: [1, 2] } });
  await panel.locator(".note").getByRole("button", { name: "Let it work again" }).waitFor();
  await panel.locator(".conv").evaluate((list) => list.querySelectorAll("details").forEach((one) => (one.open = true)));
  await panel.locator(".each summary").nth(1).waitFor();
  expect(await violationsIn(panel.page.mainFrame(), false)).toEqual([]);
});
