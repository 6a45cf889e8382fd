/**
 * A session's own rules, as text.
 *
 * Purpose: one more rule out of what the user picked, and one rule less, in the form of `rules.toml`.
 * Invariant: a rule that is made here asks or denies; the rest of the text stays as it is, byte for byte.
 * Must never: make a rule that allows, or guess at what a text holds: the daemon reads it.
 */

import type { PolicyShowResult } from "../../../protocol/typescript/wire.ts";
import { RpcError } from "./rpc.ts";

/** The code of what is said when another window's rules came first. */
const SUPERSEDED = "approval.superseded";
/** So many times a change is made anew; who is still behind after that is told. */
const TRIES = 3;

/** Where a session's rules are read and given. `base` is the text that the given one was made from. */
export interface RulesDoor {
  readonly read: () => Promise<PolicyShowResult>;
  readonly give: (text: string, base: string) => Promise<void>;
}

export const isSuperseded = (error: unknown): boolean => error instanceof RpcError && error.data?.code === SUPERSEDED;

/**
 * Change the rules as they are when they are given: where another window was first, its rules are read and changed.
 * `change` gives the new text, or null where it can't; then nothing is given, and false returned.
 */
export async function changeOwn(door: RulesDoor, change: (shown: PolicyShowResult) => string | null): Promise<boolean> {
  for (let tried = 1; ; tried += 1) {
    const shown = await door.read();
    const text = change(shown);
    if (text === null) {
      return false;
    }
    try {
      await door.give(text, shown.ownText ?? "");
      return true;
    } catch (error) {
      if (!isSuperseded(error) || tried === TRIES) {
        throw error;
      }
    }
  }
}

/** What a rule can be about: the kinds of effects that it speaks of, and what the user names. */
export interface RuleSubject {
  readonly label: string;
  readonly effects: readonly string[];
  /** What is asked for; null: nothing, it is about all of them. */
  readonly names: "paths" | "argv" | "hosts" | null;
  readonly prompt: string;
}

export const SUBJECTS: readonly RuleSubject[] = [
  { label: "Changing files", effects: ["write", "delete"], names: "paths", prompt: "Which files, such as migrations/** or *.lock" },
  { label: "Reading files", effects: ["read", "search"], names: "paths", prompt: "Which files, such as **/.env" },
  { label: "Running a command", effects: ["execute"], names: "argv", prompt: "The program and words that stand in it, such as terraform apply" },
  { label: "Reaching a host", effects: ["network"], names: "hosts", prompt: "Which host, such as *.example.org or example.org:443" },
  { label: "Installing anything", effects: ["install"], names: null, prompt: "" },
  { label: "Rewriting history, or publishing", effects: ["git_history", "publish"], names: null, prompt: "" },
];

export const VERDICTS = [
  { verdict: "ask", label: "Ask me first", detail: "It waits for an answer each time that it would be done." },
  { verdict: "deny", label: "Refuse it", detail: "No answer allows it in this session." },
] as const;

export type RuleVerdict = (typeof VERDICTS)[number]["verdict"];

const HEAD = "version = 1\n";
const TABLE = /^\[\[rule\]\][ \t]*(?:#.*)?$/m;

const quoted = (text: string): string => JSON.stringify(text).replaceAll("\u007f", "\\u007F");
const listed = (texts: readonly string[]): string => `[${texts.map(quoted).join(", ")}]`;

/** A target that a pattern matches: its stars stand for something. */
function exampleOf(pattern: string): string {
  const plain = pattern.replace(/\*+/g, "any");
  return plain.endsWith("/") ? `${plain}any` : plain;
}

/** The lines of a rule about a subject; `named` is what the user typed for it. */
function ruleTable(id: string, verdict: RuleVerdict, subject: RuleSubject, named: string): string {
  const [effect = ""] = subject.effects;
  const words = named.split(/\s+/).filter((one) => one !== "");
  const names = { argv: `argv = [${listed(words)}]`, paths: `paths = ${listed([named])}`, hosts: `hosts = ${listed([named])}` };
  const target = subject.names === null ? "any" : exampleOf(named);
  const example = subject.names === "argv" ? `argv = ${listed(words)}` : `target = ${quoted(target)}`;
  return [
    "[[rule]]",
    `id = ${quoted(id)}`,
    `effects = ${listed(subject.effects)}`,
    ...(subject.names === null ? [] : [names[subject.names]]),
    `verdict = ${quoted(verdict)}`,
    `justification = ${quoted(`${subject.label}${named === "" ? "" : ` (${named})`}: you said so for this session.`)}`,
    `match = [{ effect = ${quoted(effect)}, ${example} }]`,
    "",
  ].join("\n");
}

/** The text with one more rule. `taken`: names that are in use. */
export function withRule(text: string, taken: readonly string[], verdict: RuleVerdict, subject: RuleSubject, named: string): string {
  const stem = `here.${verdict}-${subject.effects[0] ?? ""}`.replaceAll("_", "-");
  let id = stem;
  for (let at = 2; taken.includes(id); at += 1) {
    id = `${stem}-${at}`;
  }
  const before = text === "" ? HEAD : text.endsWith("\n") ? text : `${text}\n`;
  return `${before}\n${ruleTable(id, verdict, subject, named.trim())}`;
}

/** The text without the rule of this name, and "" where none is left; null where it can't be told which lines are its own. */
export function withoutRule(text: string, id: string): string | null {
  const starts: number[] = [];
  for (let from = 0; ;) {
    const at = text.slice(from).search(TABLE);
    if (at < 0) {
      break;
    }
    starts.push(from + at);
    from += at + "[[rule]]".length;
  }
  const blocks = starts.map((start, at) => [start, starts[at + 1] ?? text.length] as const);
  const escaped = id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const named = new RegExp(`^id[ \\t]*=[ \\t]*["']${escaped}["'][ \\t]*(?:#.*)?$`, "m");
  const own = blocks.filter(([start, end]) => named.test(text.slice(start, end)));
  const [block] = own;
  if (block === undefined || own.length > 1) {
    return null;
  }
  return blocks.length === 1 ? "" : text.slice(0, block[0]) + text.slice(block[1]);
}
