/** What the panel shows of items: rows, tool lines, cards, markdown, hidden characters, attachments, hunks. */

import { describe, expect, test } from "vitest";
import type { PendingHunk, ViewItem } from "../../protocol/typescript/wire.ts";
import { attachmentLabel, splitAttachments, withAttachments } from "../src/common/attach.ts";
import { FIRST, allowSentence, answerOf, answersForAll, isApprovable, refusedReason, variantWords, variantsOf } from "../src/common/cardModel.ts";
import { touches } from "../src/common/cardFacts.ts";
import { HIDDEN_RANGES } from "../../protocol/typescript/hidden.ts";
import { proseParts, reveal, revealTip, writtenParts } from "../src/common/hidden.ts";
import { HOVER_LINES_MAX, hoverLines, BESIDE_CHARS_MAX, besideWords, hunkWords, placeAt, proposalOf } from "../src/common/hunks.ts";
import { BLOCK_TOKENS_MAX, MARKDOWN_CHARS_MAX, parseMarkdown, stableLength } from "../src/common/markdown.ts";
import type { Node } from "../src/common/markdown.ts";
import { contrastOn } from "../src/common/contrast.ts";
import { labelText, noticeText } from "../src/common/plain.ts";
import { doctorWords, share } from "../src/common/report.ts";
import { buildRows, isStreaming, turnWords, whisperWords } from "../src/common/rows.ts";
import { toolRow } from "../src/common/toolRow.ts";
import { dollars, grouped, lasting, phaseLook, running, sized } from "../src/common/words.ts";

const item = (id: string, kind: string, fields: ViewItem["fields"] = {}): ViewItem => ({ id, kind, fields });

describe("words of data in the window's own chrome", () => {
  test("a label has no icon that it did not name itself, and loses no sign", () => {
    expect(labelText("$(check) done $(sync~spin) $(not one) $5 \\$(x)")).toBe("\\$(check) done \\$(sync~spin) $(not one) $5 \\\\$(x)");
    expect(labelText("a\u202eb\nc")).toBe("a⟨U+202E⟩b⟨LF⟩c");
  });

  test("a notification has no link: neither to a command nor to an address", () => {
    const hostile = "echo '[Allow](command:gloveport.acceptFile)' [x](https://example.net) [y](file:///etc/passwd) a[0](1)";
    expect(noticeText(hostile)).toBe("echo '[Allow] (command:gloveport.acceptFile)' [x] (https://example.net) [y] (file:///etc/passwd) a[0] (1)");
    expect(noticeText("plain words, [as they are] (here)")).toBe("plain words, [as they are] (here)");
  });
});

describe("rows", () => {
  test("a turn's head stands before its message, its bad end after all of it", () => {
    const rows = buildRows([
      item("message/1", "message.user", { text: "do", state: "delivered" }),
      item("turn/1", "turn", { state: "failed", message: "no", hint: "try" }),
      item("answer/1", "message.assistant", { text: "I", state: "interrupted" }),
      item("message/2", "message.user", { text: "again", state: "delivered" }),
      item("turn/2", "turn", { state: "running" }),
    ]);
    expect(rows.map((row) => row.key)).toEqual(["turn/1", "message/1", "answer/1", "turn/1#end", "turn/2", "message/2"]);
    expect(rows[3]?.kind).toBe("notice");
  });

  test("queued words are not in the conversation, returned ones are told", () => {
    const rows = buildRows([
      item("message/1", "message.user", { state: "queued" }),
      item("message/2", "message.user", { state: "returned", reason: "taken back" }),
    ]);
    expect(rows).toEqual([{ key: "message/2", kind: "whisper", id: "message/2" }]);
  });

  test("a card that waits and a card that was answered are different rows of one item", () => {
    const keys = ["pending", "allowed"].map((state) => buildRows([item("approval/1", "approval", { state })])[0]);
    expect(keys).toEqual([
      { key: "approval/1#card", kind: "card", id: "approval/1" },
      { key: "approval/1", kind: "answered", id: "approval/1" },
    ]);
  });

  test("what was erased has no row of its own; what a newer version wrote is told, and an answer whose end was erased goes on no more", () => {
    expect(buildRows([item("opaque/1", "opaque", { type: "UserMessageAdded", erased: true })])).toEqual([]);
    expect(whisperWords(item("opaque/1", "opaque", { type: "Newer" }))).toBe("An entry of a newer version (Newer)");
    const turn = (state: string) => (id: string) => (id === "turn/t" ? item(id, "turn", { state }) : undefined);
    const streaming = ["running", "retrying", "completed", "failed"].map((state) => isStreaming({ state: "streaming", turnId: "t" }, turn(state)));
    expect(streaming).toEqual([true, true, false, false]);
  });

  test("what happened is said in words, and kinds without words are left out", () => {
    expect(whisperWords(item("apply/1", "apply", { action: "accept", paths: ["src/a.py", "b.py", "c.py"] }))).toBe("Accepted: a.py and 2 more");
    expect(turnWords({ state: "retrying", retry: { reason: "busy.", backoffUs: 1_500_000, attempt: 2, attemptsMax: 5 } }).words).toBe(
      "busy, trying again in 2 s, attempt 2 of 5",
    );
    expect(whisperWords(item("erasure/1", "erasure", { events: 1, outputs: 2 }))).toBe("A text was erased from this record: 1 entry, 2 outputs");
    expect(buildRows([item("grant/1", "grant"), item("decision/1", "decision"), item("session", "session")])).toEqual([]);
  });
});

describe("cards that are asked about together", () => {
  const OPTION = { scope: "once", sentence: "it", uses: 1, lifetime_s: 600 };
  const part = (at: number, each: unknown, more: ViewItem["fields"] = {}): ViewItem =>
    item(`approval/c${at}.a1`, "approval", {
      state: "pending",
      cardDigest: `d${at}`,
      card: { options: [OPTION], effects: [{ kind: "write" }], together: { of: 3, at, calls: ["c1", "c2", "c3"], each } },
      ...more,
    });

  test("one row holds all parts that wait; what was answered, or stands in another row, is none of it", () => {
    const parts = [part(1, false), part(2, false), part(3, false)];
    expect(buildRows(parts)).toEqual([
      { key: "approval/c1.a1+approval/c2.a1+approval/c3.a1#card", kind: "card", id: "approval/c1.a1", parts: parts.map((one) => one.id) },
    ]);
    expect(buildRows([part(1, false, { state: "allowed" }), part(2, false), part(3, false)]).map((row) => row.parts?.length)).toEqual([undefined, 2]);
    expect(buildRows([item("approval/x", "approval", { state: "pending", card: {} }), part(1, false)])).toHaveLength(2);
  });

  test("one answer for all is one for each by its own digest, and only where no part needs a look of its own", () => {
    const all = answersForAll([part(1, false), part(2, false)], true);
    expect(all?.map((one) => [one.approvalId, one.cardDigest, one.allow, one.uses])).toEqual([
      ["c1.a1", "d1", true, null],
      ["c2.a1", "d2", true, null],
    ]);
    for (const each of [true, undefined, "no"]) {
      expect(answersForAll([part(1, each), part(2, each)], true)).toBeNull();
      expect(answersForAll([part(1, each), part(2, each)], false)).toBeNull();
    }
    expect(answersForAll([part(1, false), part(2, false, { card: { together: { each: false } } })], true)).toBeNull();
    expect(answersForAll([part(1, false)], true)).toBeNull();
  });
});

describe("tool rows", () => {
  const fields = (more: ViewItem["fields"]): ViewItem["fields"] => ({
    tool: "run_command",
    arguments: '{"argv":["mypy","src"]}',
    state: "ok",
    ...more,
  });

  test.each([
    ["proposed", {}, "Queued", "queued"],
    ["running", {}, "Running", "running"],
    ["ok", { durationUs: 400_000 }, "Ran", "done"],
    ["failed", { exitCode: 1, durationUs: 6_100_000 }, "Ran", "bad"],
    ["timeout", { durationUs: 120_000_000 }, "Timed out", "bad"],
    ["oom", {}, "Out of memory", "bad"],
    ["policy", { executor: "sandbox:bubblewrap" }, "Blocked", "blocked"],
    ["denied", {}, "Denied", "denied"],
    ["cancelled", {}, "Stopped", "stopped"],
    ["unknown", {}, "Outcome unknown", "unknown"],
    ["lost", {}, "Outcome unknown", "unknown"],
  ] as const)("%s", (state, more, verb, mark) => {
    expect(toolRow(fields({ state, ...more }))).toMatchObject({ verb, mark, target: "mypy src" });
  });

  test("an edit is a proposal, a late result is called late, and broken arguments are no reason to fail", () => {
    expect(toolRow({ tool: "edit_file", arguments: '{"path":"a.py"}', state: "ok" })).toMatchObject({ verb: "Proposed", target: "a.py" });
    expect(toolRow(fields({ late: true, goalRevision: 2 }))).toMatchObject({ verb: "Late result", figure: "for goal 2", mark: "late" });
    expect(toolRow({ tool: "x", arguments: "{", state: "invalid" })).toMatchObject({ verb: "Refused", target: "x" });
  });
});

describe("approval cards", () => {
  const option = (scope: string, sentence: string, lifetime: number): ViewItem["fields"] => ({
    scope,
    sentence,
    uses: scope === "once" ? 1 : null,
    lifetime_s: lifetime,
  });
  const card = {
    command: { words: ["pytest"] },
    options: [
      option("once", "run `pytest`, once, in here", 600),
      option("session", "run exactly `pytest`, in this session, in here", 28_800),
      option("session", "run `pytest`, also with names, in this session, in here", 28_800),
    ],
    refused_scopes: [{ scope: "workspace", reason: "rights end with their session" }],
  };

  test("the sentence is that of the right to be issued, and an answer never names what the card does not offer", () => {
    const choice = { scope: "session", variant: 1, uses: 5, lifetimeS: 3600 } as const;
    expect(allowSentence(card, choice)).toBe("run `pytest`, also with names, in this session, in here, at most 5 times, ending in 1 h.");
    expect(answerOf(card, "a", "d", true, choice)).toEqual({ approvalId: "a", cardDigest: "d", allow: true, option: 2, uses: 5, lifetimeS: 3600 });
    expect(answerOf(card, "a", "d", true, { ...choice, scope: "turn" })).toBeNull();
    expect(answerOf(card, "a", "d", true, { ...choice, lifetimeS: 99_999 })?.lifetimeS).toBeNull();
    expect(answerOf(card, "a", "d", false, FIRST)?.allow).toBe(false);
  });

  test("a scope that is not offered has its reason, and variants are told apart by what differs", () => {
    expect(refusedReason(card, "workspace")).toBe("rights end with their session");
    expect(refusedReason(card, "turn")).toBe("not offered");
    expect(variantWords(variantsOf(card, "session"))).toEqual(["run exactly `pytest`", "run `pytest`, also with names"]);
  });

  test("a term says the verb once, and what it can't say stays", () => {
    const effects = [
      { kind: "write", words: "write `lib/a.py`", target: "lib/a.py", notes: ["a.py: python runs it", "b.py: is another"] },
      { kind: "secret_read", words: "read the secret `.env`", notes: [] },
      { kind: "execute", words: "run `pytest`", notes: [] },
    ];
    expect(touches({ effects }).map((line) => [line.term, ...line.words.map((one) => one.text)])).toEqual([
      ["Writes", "`lib/a.py`", "Python runs it", "b.py: is another"],
      ["Reads", "read the secret `.env`"],
    ]);
  });

  test("b10: an empty command is never approvable", () => {
    expect(isApprovable(card)).toBe(true);
    expect(isApprovable({ ...card, command: { words: ["", " "] } })).toBe(false);
    expect(isApprovable({ ...card, options: [] })).toBe(false);
  });
});

describe("hidden characters", () => {
  test("controls, bidi, zero-width, tags and odd spaces are written out; words are left alone", () => {
    expect(reveal("a\u202Eb\u200Bc\u001B[0m\u{E0041}\u00a0é漢")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨ESC⟩[0m⟨U+E0041⟩⟨U+00A0⟩é漢");
    expect(reveal("one\ttwo\nthree", "lines")).toBe("one\ttwo\nthree");
  });

  test("each character that the daemon writes out is written out, of all there are", () => {
    const hidden = HIDDEN_RANGES.split(" ").map((one) => one.split("-").map((end) => parseInt(end, 16)));
    let [at, wrong] = [0, ""];
    for (let code = 0; code < 0x110000; code += 1) {
      const [first = 0, last = first] = hidden[at] ?? [0x110000];
      const char = String.fromCodePoint(code);
      const isLeft = reveal(`a${char}`) === `a${char}`;
      wrong += isLeft === (code >= first && code <= last) ? ` ${code.toString(16)}` : "";
      at += code === last ? 1 : 0;
    }
    expect(wrong).toBe("");
    expect(at).toBe(hidden.length);
  }, 120_000);

  test("two names never look the same, in words and lines the marks of writing stay, and what nobody sees is shown in each", () => {
    for (const char of ["\ufe0f", "\u{e0100}", "\u034f", "\u17b4", "\u180b", "\u2800", "\u{1d159}", "\u{e0fff}"]) {
      const code = char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
      expect([reveal(`a${char}.py`), reveal(`a${char}`, "words"), reveal(`a${char}`, "lines")]).toEqual([
        `a⟨U+${code}⟩.py`,
        ...Array<string>(2).fill(`a⟨U+${code}⟩`),
      ]);
      expect(labelText(`a${char}.py`)).toBe(`a⟨U+${code}⟩.py`);
      expect(revealTip(`w/a${char}.py\nruns`)).toBe(`w/a⟨U+${code}⟩.py\nruns`);
    }
    expect(reveal("e\u0301")).toBe("e⟨U+0301⟩");
    expect(reveal("หนี้ हिन्दी ⚠\ufe0f", "words")).toBe("หนี้ हिन्दी ⚠\ufe0f");
    expect(reveal("⚠\ufe0f\n", "words")).toBe("⚠\ufe0f⟨LF⟩");
  });

  test("g09: prose keeps the joiners that scripts and emoji need, and shows the rest", () => {
    expect(proseParts("👩‍💻 می‌خواهم")).toEqual([{ text: "👩‍💻 می‌خواهم", hidden: false }]);
    expect(proseParts("x\u202Ey").map((part) => part.hidden)).toEqual([false, true, false]);
  });

  test("the daemon's own escapes are marked, and what imitates them is not", () => {
    expect(writtenParts("a⟨U+202E⟩b⟨200 spaces⟩").map((part) => part.hidden)).toEqual([false, true, false, true]);
    expect(writtenParts("⟨nothing⟩").every((part) => !part.hidden)).toBe(true);
  });
});

test("a hunk of several lines shows them over its mark, bounded, with what hides written out; one line needs no hover", () => {
  const of = (newText: string): string => hoverLines({ newText } as Parameters<typeof hoverLines>[0]);
  expect(of("x = 1\n")).toBe("");
  expect(of("a\u202eb\n\tc\n")).toBe("a⟨U+202E⟩b\n\tc");
  expect(
    of("y\n".repeat(HOVER_LINES_MAX + 3))
      .split("\n")
      .at(-1),
  ).toBe("… 3 more lines: Compare shows all of it");
  expect(of(`${"z".repeat(300)}\nq`)).toBe(`${"z".repeat(200)} … 100 more characters\nq`);
});

test("contrast is told of what is seen: layers over one another, and what can't be read is no good one", () => {
  expect(contrastOn("rgb(0, 0, 0)", ["rgb(255, 255, 255)"])).toBeCloseTo(21);
  expect(contrastOn("rgb(119, 119, 119)", ["rgba(0, 0, 0, 0)"])).toBeCloseTo(4.48, 1);
  expect(contrastOn("rgba(0, 0, 0, 0)", ["rgb(255, 255, 255)"])).toBe(1);
  expect(contrastOn("color(srgb 1 1 1 / 0.5)", ["rgb(0, 0, 0)", "rgba(255, 255, 255, 0.5)"])).toBeLessThan(4.5);
  expect(contrastOn("lab(50 0 0)", ["rgb(255, 255, 255)"])).toBe(1);
});

describe("markdown", () => {
  const flat = (nodes: readonly Node[]): string =>
    nodes
      .map((node) =>
        node.kind === "element"
          ? `<${node.tag}>${flat(node.children)}`
          : node.kind === "link"
            ? `[${flat(node.children)}](${node.target})`
            : "text" in node
              ? node.text
              : `{${node.kind}}`,
      )
      .join("");

  test("g08: html is text, an image is its words, a link keeps its whole target", () => {
    expect(flat(parseMarkdown('<img src="http://x/y"> <script>1</script>'))).toContain('<img src="http://x/y">');
    const nodes = parseMarkdown("![alt](http://x/?q=1) [go](javascript:alert(1))");
    const [image, , link] = nodes[0]?.kind === "element" ? nodes[0].children : [];
    expect(image).toEqual({ kind: "image", target: "http://x/?q=1", text: "alt" });
    expect(link).toMatchObject({ kind: "link", target: "javascript:alert(1)" });
  });

  test("a block of too many parts is shown as it was written, and what stands beside it as ever", () => {
    const table = `|a|b|\n|-|-|\n${"|\n".repeat(BLOCK_TOKENS_MAX)}`;
    const nodes = parseMarkdown(`**before**\n\n${table}\nafter`);
    expect(nodes.map((node) => node.kind)).toEqual(["element", "written", "element"]);
    expect(flat(nodes.slice(1, 2))).toContain("|a|b|\n|-|-|\n|");
    expect(parseMarkdown("|a|b|\n|-|-|\n|1|2|").map((node) => node.kind)).toEqual(["element"]);
  });

  test("only listed elements come out, however deep a text nests", () => {
    const deep = `${"> ".repeat(200)}${"*".repeat(300)}${"[".repeat(200)}`;
    expect(() => parseMarkdown(deep)).not.toThrow();
    expect(parseMarkdown("x".repeat(MARKDOWN_CHARS_MAX + 10)).length).toBe(1);
  });

  test("blocks before a stable place do not change when text is appended", () => {
    const text = "one\n\ntwo **bold**\n\n```py\na = 1\n\nb = 2\n```\n\n- x\n- y\n\nend of it";
    for (let cut = 1; cut <= text.length; cut += 1) {
      const stable = stableLength(text.slice(0, cut));
      expect(flat(parseMarkdown(text.slice(0, stable))) + flat(parseMarkdown(text.slice(stable)))).toBe(flat(parseMarkdown(text)));
    }
  });
});

describe("attachments", () => {
  test("a message names places and never holds what stands there", () => {
    const given = [
      { path: "src/a b.py", lines: null },
      { path: "c.py", lines: [3, 9] as const },
    ];
    const message = withAttachments("look\n\nLook at: this", given);
    expect(splitAttachments(message)).toEqual({ text: "look\n\nLook at: this", attachments: given });
    expect(withAttachments("x", [{ path: "a`b", lines: null }])).toBe("x");
    expect(given.map(attachmentLabel)).toEqual(["a b.py", "c.py:3–9"]);
  });

  test("words that look like references but are none stay words", () => {
    expect(splitAttachments("a\n\nLook at: the sky").attachments).toEqual([]);
  });
});

describe("hunks", () => {
  const hunk = (more: Partial<PendingHunk>): PendingHunk => ({
    sessionId: "s",
    sessionTitle: "",
    changeId: "c",
    digest: "d",
    hunkId: "h",
    hunkDigest: "x",
    path: "a",
    uri: "file:///a",
    kind: "modify",
    startLine: 0,
    endLine: 0,
    oldCount: 0,
    newCount: 0,
    oldText: null,
    newText: null,
    runsByItself: null,
    meets: false,
    ...more,
  });

  test("a new line stands beside the old one only where all of it is seen there", () => {
    const beside = (newText: string): string => besideWords(hunk({ oldCount: 1, newCount: 1, newText }));
    expect(beside("  x = 1\n")).toBe("→ x = 1");
    expect(beside(`${"x".repeat(BESIDE_CHARS_MAX)}\n`)).toBe(`→ ${"x".repeat(BESIDE_CHARS_MAX)}`);
    const told = "1 line changed, longer than it can be shown here: Compare shows all of it";
    expect(beside(`${"x".repeat(BESIDE_CHARS_MAX + 1)}\n`)).toBe(told);
    expect(beside(`x = 1${" ".repeat(9)}; y()\n`)).toBe(told);
    expect(beside("x = 1\t\t\t\t\t\t\t\t\ty()\n")).toBe(told);
    expect(beside("a\nb\n")).toBe("1 line changed");
  });

  test("the proposal is the text with the hunks in it, and says where each stands", () => {
    const first = hunk({ startLine: 1, endLine: 2, newText: "B\nBB\n", oldCount: 1, newCount: 2 });
    const second = hunk({ startLine: 3, endLine: 3, newText: "new\n", newCount: 1 });
    const { text, placed } = proposalOf("a\nb\nc\nd", [second, first]);
    expect(text).toBe("a\nB\nBB\nc\nnew\nd");
    expect(placed.map(({ line, end }) => [line, end])).toEqual([
      [1, 3],
      [4, 5],
    ]);
    expect(placeAt(placed, 2)?.hunk).toBe(first);
    expect(placeAt(placed, 0)).toBeUndefined();
  });

  test("in a conflict both versions stand, also where the user's line has no end", () => {
    const { text, placed } = proposalOf("a\nmine", [hunk({ startLine: 1, endLine: 2, newText: "theirs\n", meets: true })]);
    expect(text).toBe("a\nmine\ntheirs\n");
    expect(placed[0]).toMatchObject({ line: 1, end: 3, theirs: 2 });
  });

  test("a hunk without its text or out of the text is left out", () => {
    expect(proposalOf("a\n", [hunk({ newText: null }), hunk({ startLine: 7, endLine: 8, newText: "x" })]).text).toBe("a\n");
    expect([hunkWords(hunk({ newCount: 8 })), hunkWords(hunk({ oldCount: 1 })), hunkWords(hunk({ oldCount: 1, newCount: 3 }))]).toEqual([
      "8 lines added",
      "1 line removed",
      "1 line to become 3",
    ]);
  });
});

test("numbers are said one way", () => {
  expect([
    grouped(1_284),
    lasting(38_000),
    lasting(400_000),
    lasting(12_400_000),
    running(125e6),
    dollars(420_000_000),
    dollars(1),
    sized(850),
    sized(12_595),
  ]).toEqual(["1,284", "38 ms", "0.4 s", "12 s", "2 min 05 s", "$0.42", "<$0.01", "850 bytes", "12.3 KiB"]);
  expect([phaseLook("model"), phaseLook("waiting"), phaseLook("idle"), phaseLook("something new")]).toEqual(["run", "wait", "idle", "idle"]);
  expect([share(56, 100), share(1, 1000), share(1, 0)]).toEqual(["56 %", "<1 %", ""]);
  expect(
    doctorWords([
      { name: "a", verdict: "holds", evidence: "", fix: "" },
      { name: "b", verdict: "not_claimed", evidence: "", fix: "" },
    ]),
  ).toBe("1 passed, 1 weaker");
});
