/** What a card says of what a call touches, where it comes from and what leaves with it. */

import { describe, expect, test } from "vitest";
import { linesOf, releaseOf, releaseRules, requestLines, sendsOf, touches } from "../src/common/cardFacts.ts";
import type { Line } from "../src/common/cardFacts.ts";
import type { Fields } from "../src/common/toolRow.ts";

const said = (lines: readonly Line[]) => Object.fromEntries(lines.map((line) => [line.term, line.words.map((one) => one.text).join(" ")]));
const origin = (kind: string, name = "", integrity: string | null = null) => ({ kind, name, integrity });
const from = (...origins: readonly object[]) => said(touches({ provenance: { words: "In words.", origins } }))["From"];
const SENDS = {
  head: ["POST /a", "X: y"],
  lines: [
    [
      { text: "Cause: ", source: null },
      { text: "a line", source: 0 },
    ],
    [{ text: "a line", source: 0 }],
    [],
  ],
  bytes: 21,
  hidden_characters: 1,
  scan: "none_found",
  sources: [{ kind: "file", name: "retry.py" }],
};
const SHA = `${"a".repeat(32)}${"b".repeat(32)}`;
const RELEASE = { scheme: "https", host: "api.example.org", port: 443, sha256: SHA, bytes: 1412 };
const REQUEST: Fields = {
  sends: SENDS,
  release: RELEASE,
  provenance: { confidential: false, readers: null, origins: [origin("user", "", "user")] },
  effects: [{ kind: "network", target: "api.example.org:443", words: "reach `api.example.org:443` (sending all of it)", notes: [] }],
  destinations: ["api.example.org:443"],
  rule_ids: ["builtin:network.default"],
  options: [{ scope: "once", lifetime_s: 600 }],
  sandbox: { name: "bubblewrap", network: false, holds: ["egress_list", "filesystem_view"] },
};

describe("where a call comes from", () => {
  test("each source is named by its kind, and an untrusted one is called that", () => {
    expect(from(origin("user", "", "user"))).toBe("Your messages");
    expect(from(origin("gloveport", "", "user"), origin("user", "", "user"), origin("workspace", "src", "workspace"))).toBe(
      "Your messages, text of this project",
    );
    expect(from(origin("http", "tracker.example.org:443", "untrusted"), origin("workspace", "", "untrusted"))).toBe(
      "An answer of tracker.example.org:443 (untrusted), text of this project (untrusted)",
    );
    expect(from(origin("secret", ".env"), origin("unseen", "target/x"), origin("unknown", "", "untrusted"))).toBe(
      "The secret .env, what nobody looked through: target/x, an unknown source (untrusted)",
    );
    expect(from(origin("other", "issue:214"))).toBe("issue:214");
  });

  test("sources that are not listed are counted; a card without them says what it has in words", () => {
    const provenance = { origins: [origin("user", "", "user")], origins_left_out: 12 };
    expect(said(touches({ provenance }))["From"]).toBe("Your messages and 12 more sources");
    expect(said(touches({ provenance: { words: "Only your own words." } }))["From"]).toBe("Only your own words.");
  });

  test("who may read is told where data are confidential, and for whatever leaves", () => {
    const provenance = (confidential: boolean, readers: readonly string[] | null) => ({
      ...REQUEST,
      provenance: { confidential, readers, origins: [] },
    });
    expect(said(touches(provenance(false, null)))["Data"]).toBe("Nothing that led here is marked confidential.");
    expect(said(touches(provenance(true, [])))["Data"]).toBe("Confidential: nobody else may read it.");
    expect(said(touches(provenance(true, ["api.example.org", "model:openai"])))["Data"]).toBe(
      "Confidential. May be read by api.example.org the model’s provider openai",
    );
    expect(said(touches({ provenance: { confidential: true, readers: [], origins: [] } }))["Data"]).toContain("Confidential");
    expect("Data" in said(touches({ provenance: { confidential: false, readers: null, origins: [] } }))).toBe(false);
  });
});

describe("what leaves", () => {
  test("is told whole in its own place, and in no row besides", () => {
    const rows = said(touches(REQUEST));
    expect(Object.values(rows).join()).not.toContain("sending all of it");
    expect("Connects" in rows).toBe(false);
    expect(rows).toMatchObject({ Secrets: "None found. A scan can miss one.", Sandbox: "bubblewrap · no network but what is named" });
    expect(rows["SHA-256"]).toBe("aaaaaaaaaaaa…bbbbbbbb of the stored request, 1,412 bytes");
    expect(said(requestLines(REQUEST))).toMatchObject({ To: "https://api.example.org:443", Request: "POST /a", "": "X: y" });
    expect(sendsOf(REQUEST)).toMatchObject({ bytes: 21, hidden: 1, isScanned: true, sources: ["`retry.py`, as it was read"] });
    const sends = sendsOf(REQUEST);
    expect(sends === null ? -1 : linesOf(sends, 0)).toBe(2);
  });

  test("an effect that only repeats the command says what it does, and not the command again", () => {
    const command = { text: "pip install 'a b'", words: ["pip", "install", "a b"], cwd: "." };
    const effects = [
      { kind: "install", target: "pip install a b", words: "install what others wrote: `pip install a b`", notes: [] },
      { kind: "git_history", target: "pip install 'a b'", words: "rewrite history: `pip install 'a b'`", notes: [] },
      { kind: "publish", target: "pip install a b", words: "publish: `pip install a b`", notes: [] },
      { kind: "publish", target: "b.example:1", words: "publish: `b.example:1`", notes: [] },
      { kind: "install", target: "b", words: "install what others wrote: `b`", notes: [] },
    ];
    const rows = touches({ command, effects, destinations: ["pip install a b"] }).map((line) => [
      line.term,
      line.words.map((one) => one.text).join(" "),
    ]);
    expect(rows.slice(1)).toEqual([
      ["Installs", "what others wrote"],
      ["Rewrites", "history"],
      ["Publishes", "what the command says"],
      ["Publishes", "`b.example:1`"],
      ["Installs", "what others wrote: `b`"],
    ]);
  });

  test("another place than the one of the payload keeps its row", () => {
    const other = { kind: "network", target: "b.example:1", words: "reach `b.example:1`", notes: [] };
    const rows = said(touches({ ...REQUEST, effects: [other], destinations: ["api.example.org:443", "b.example:1"] }));
    expect(rows["Connects"]).toBe("b.example:1");
  });

  test("nobody is said to have looked for secrets where nobody did", () => {
    expect("Secrets" in said(touches({ ...REQUEST, sends: { ...SENDS, scan: null } }))).toBe(false);
    expect("Secrets" in said(touches({ ...REQUEST, sends: null }))).toBe(false);
  });

  test("is held back by the daemon's own checks alone, and its rules come from the right that would be issued", () => {
    expect(releaseOf(REQUEST)?.isHeldBack).toBe(false);
    expect(releaseOf({ ...REQUEST, rule_ids: ["kernel:confidential"] })?.isHeldBack).toBe(true);
    expect(releaseOf({ ...REQUEST, rule_ids: ["user:kernel:confidential"] })?.isHeldBack).toBe(false);
    expect(releaseRules(REQUEST)).toContain("Ends 10 min after your answer, or when the goal changes.");
    expect(releaseOf({})).toBe(null);
  });

  test("a message names its recipients, and its text stands in its own place", () => {
    const effects = [{ kind: "message", target: "a@example.org", words: "send a message to `a@example.org` (sending all)", notes: [] }];
    const mail = { ...REQUEST, release: null, effects, destinations: ["a@example.org", "mail.example.org:465"] };
    expect(said(touches(mail))).toMatchObject({ "Sends to": "a@example.org" });
    expect(said(requestLines(mail))["Message"]).toBe("POST /a");
  });
});

test("what a program could read where it runs is told by what its sandbox holds", () => {
  const run = (holds: readonly string[]) => said(touches({ command: { cwd: "." }, sandbox: { name: "x", holds, network: false } }))["Can read"];
  expect(run(["filesystem_view"])).toBe("its copy of this project");
  expect(run([])).toBe("every file that you can read");
  expect("Can read" in said(touches(REQUEST))).toBe(false); // no program of the project's
});
