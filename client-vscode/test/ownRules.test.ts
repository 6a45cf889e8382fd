/** Rules of a session as text: each that can be picked is one that the daemon takes (tests/contract/test_session_rules.py reads the same file). */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { RpcError } from "../src/common/rpc.ts";
import { changeOwn, SUBJECTS, VERDICTS, withRule, withoutRule } from "../src/common/ownRules.ts";

const NAMED = { paths: "migrations/**", argv: "terraform  apply", hosts: "*.example.org" };
const PICKED = readFileSync("test/picked.toml", "utf8");

const idsOf = (text: string): readonly string[] => [...text.matchAll(/^id = "(.*)"$/gm)].map((found) => found[1] ?? "");

function every(): string {
  let text = "";
  for (const subject of SUBJECTS) {
    for (const { verdict } of VERDICTS) {
      text = withRule(text, idsOf(text), verdict, subject, subject.names === null ? "" : NAMED[subject.names]);
    }
  }
  return text;
}

test("what can be picked is written as the text that the daemon was seen to take", () => {
  expect(every()).toBe(PICKED);
  expect(idsOf(PICKED)).toHaveLength(SUBJECTS.length * VERDICTS.length);
  expect(PICKED).not.toMatch(/verdict = "allow"/);
});

test("a name that is taken gets a number, and odd words stay within their quotes", () => {
  const [files] = SUBJECTS;
  expect(idsOf(withRule("", ["here.deny-write", "here.deny-write-2"], "deny", files!, "a"))).toEqual(["here.deny-write-3"]);
  expect(withRule("", [], "deny", files!, 'a"]\nverdict = "allow')).toContain('paths = ["a\\"]\\nverdict = \\"allow"]');
});

test("a rule goes with its own lines alone; the last one leaves nothing, and what can't be told is left", () => {
  const ids = idsOf(PICKED);
  for (const id of ids) {
    const left = withoutRule(PICKED, id);
    expect(idsOf(left ?? "")).toEqual(ids.filter((one) => one !== id));
    expect(left?.startsWith("version = 1\n")).toBe(true);
  }
  const [first = ""] = ids;
  expect(withoutRule(withRule("", [], "ask", SUBJECTS[0]!, "a"), "here.ask-write")).toBe("");
  expect(withoutRule(PICKED, "unknown")).toBeNull();
  expect(withoutRule(PICKED + PICKED, first)).toBeNull();
});

/** A session's rules, as the daemon gives and takes them; `between` is what another window does before each giving. */
function door(between: (text: string) => string) {
  const held = { text: "" };
  const read = () =>
    Promise.resolve({
      rulesHash: "",
      rules: idsOf(held.text).map((ruleId) => ({ ruleId, source: "", verdict: "", justification: "" })),
      ownText: held.text,
    });
  const give = (text: string, base: string) => {
    held.text = between(held.text);
    if (base !== held.text) {
      return Promise.reject(new RpcError("changed", { code: "approval.superseded", hint: "" }));
    }
    held.text = text;
    return Promise.resolve();
  };
  return { held, read, give };
}

const [FILES] = SUBJECTS;
const added = (named: string) => (shown: { readonly rules: readonly { readonly ruleId: string }[]; readonly ownText?: string }) =>
  withRule(
    shown.ownText ?? "",
    shown.rules.map(({ ruleId }) => ruleId),
    "deny",
    FILES!,
    named,
  );

test("a rule that another window gave meanwhile stays beside the one that is added", async () => {
  let others = 1;
  const session = door((text) => (others-- > 0 ? withRule(text, idsOf(text), "ask", FILES!, "theirs") : text));
  expect(await changeOwn(session, added("ours"))).toBe(true);
  expect(idsOf(session.held.text)).toEqual(["here.ask-write", "here.deny-write"]);
});

test("who is always behind is told; what can't be made gives nothing", async () => {
  const session = door((text) => withRule(text, idsOf(text), "ask", FILES!, "theirs"));
  await expect(changeOwn(session, added("ours"))).rejects.toThrow("changed");
  expect(await changeOwn(session, () => null)).toBe(false);
  expect(session.held.text).not.toContain("deny");
});
