/**
 * The facts of an approval card.
 *
 * Purpose: read from the card of the wire what a call touches, where it comes from, and what leaves with it.
 * Invariant: a row says what the card's data say, and names who says it; what the card does not hold has no row.
 * Must never: leave out a part of what leaves, or call anything safe.
 */

import { sub, subs, texts } from "./cardModel.ts";
import { num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { capital, counted, grouped, lifetime } from "./words.ts";

export interface Word {
  readonly text: string;
  readonly code: boolean;
  readonly quiet: boolean;
  /** The whole of what `text` is a part of; empty where that is all. */
  readonly whole: string;
}

export interface Line {
  readonly term: string;
  readonly words: readonly Word[];
}

/** A part of a line that leaves; `source` is the index of the text in which it also stands. */
export interface Run {
  readonly text: string;
  readonly source: number | null;
}

/** What leaves, as the daemon shows it: whole. */
export interface Sends {
  readonly head: readonly string[];
  readonly lines: readonly (readonly Run[])[];
  readonly bytes: number;
  readonly hidden: number;
  readonly isScanned: boolean;
  /** The texts of which runs are parts, in words; what is a name stands in backticks. */
  readonly sources: readonly string[];
}

/** Bytes that are kept to be sent once. */
export interface Release {
  readonly host: string;
  readonly place: string;
  readonly url: string;
  readonly sha256: string;
  readonly bytes: number;
  /** It was held back because its place may not read what may be in it. */
  readonly isHeldBack: boolean;
}

const HASH_BEGIN = 12;
const HASH_END = 8;
const plain = (text: string, quiet = false): Word => ({ text, code: false, quiet, whole: "" });
const code = (text: string, whole = ""): Word => ({ text, code: true, quiet: false, whole });

/** Verbs of effects that the term beside them says already. */
const SAID_BY_TERM = /^(read|search in|write|delete|reach) (?=`)|^(install|rewrite|publish:) /;

const TERMS: Readonly<Record<string, string>> = {
  read: "Reads",
  search: "Reads",
  secret_read: "Reads",
  write: "Writes",
  delete: "Deletes",
  network: "Connects",
  install: "Installs",
  publish: "Publishes",
  message: "Sends to",
  git_history: "Rewrites",
};

/** What an effect says whose target is the command itself. */
const REPEATED: Readonly<Record<string, string>> = { install: "what others wrote", git_history: "history", delete: "files" };

const ORIGINS: Readonly<Record<string, string>> = {
  user: "your messages",
  workspace: "text of this project",
  secret: "the secret",
  secret_like: "what looks like a secret, from",
  unseen: "what nobody looked through:",
  http: "an answer of",
  mail: "an answer of",
  database: "the database",
  unknown: "an unknown source",
};
/** Our own words led to nothing by themselves. */
const OURS = "gloveport";
const HELD_BACK = new Set(["kernel:confidential", "kernel:could-carry"]);
const PROVIDER = "model:";

/** From what the arguments may come: each source by its kind, and whether it is trusted. */
function fromLine(provenance: Fields): Line {
  const origins = subs(provenance, "origins").filter((one) => str(one, "kind") !== OURS);
  if (origins.length === 0) {
    return { term: "From", words: [plain(str(provenance, "words"))] };
  }
  const words = origins.flatMap((one, at) => {
    const [kind, name, integrity] = [str(one, "kind"), str(one, "name"), str(one, "integrity")];
    const said = ORIGINS[kind] ?? "";
    const end = at < origins.length - 1 ? "," : "";
    const parts = [...(said === "" ? [] : [plain(said)]), ...(name === "" || kind === "workspace" ? [] : [code(name)])];
    const trusted = integrity === "untrusted" ? [plain("(untrusted)", true)] : [];
    const all = [...parts, ...trusted];
    return all.map((word, index) => (index === all.length - 1 ? { ...word, text: word.text + end } : word));
  });
  const [first, ...rest] = words;
  const begun = first === undefined || first.code ? words : [{ ...first, text: first.text.charAt(0).toUpperCase() + first.text.slice(1) }, ...rest];
  const left = num(provenance, "origins_left_out") ?? 0;
  return { term: "From", words: left > 0 ? [...begun, plain(`and ${counted(left, "more source")}`, true)] : begun };
}

/** Who may read what may leave with a call. */
function dataLine(provenance: Fields): Line {
  if (provenance["confidential"] !== true) {
    return { term: "Data", words: [plain("Nothing that led here is marked confidential.")] };
  }
  const readers = texts(provenance, "readers");
  if (readers.length === 0) {
    return { term: "Data", words: [plain("Confidential: nobody else may read it.")] };
  }
  const names = readers.flatMap((one) =>
    one.startsWith(PROVIDER) ? [plain("the model’s provider"), code(one.slice(PROVIDER.length))] : [code(one)],
  );
  return { term: "Data", words: [plain("Confidential. May be read by"), ...names] };
}

/** What a program could read where it runs, whatever it names. */
function viewLine(sandbox: Fields): Line {
  const own = texts(sandbox, "holds").includes("filesystem_view");
  return { term: "Can read", words: [plain(own ? "its copy of this project" : "every file that you can read")] };
}

/** Whether a target is the whole command, which stands above already. */
function isCommandItself(target: string, command: Fields | null): boolean {
  return command !== null && (target === str(command, "text") || target === texts(command, "words").join(" "));
}

/** A row of one effect. `isSent`: what it sends is shown elsewhere; so is the command, which its words may only repeat. */
function effectLine(effect: Fields, isSent: boolean, command: Fields | null): Line | null {
  const notes = texts(effect, "notes");
  const [kind, words, target] = [str(effect, "kind"), str(effect, "words"), str(effect, "target")];
  if (kind === "execute" && notes.length === 0) {
    return null;
  }
  const said = isSent
    ? code(target)
    : plain(isCommandItself(target, command) ? (REPEATED[kind] ?? "what the command says") : words.replace(SAID_BY_TERM, ""));
  return { term: TERMS[kind] ?? "Does", words: [said, ...notes.map((one) => plain(withoutTarget(one, target), true))] };
}

/** A note on a path without the path's name in front: it stands just before. */
function withoutTarget(note: string, target: string): string {
  const name = note.slice(0, Math.max(0, note.indexOf(": ")));
  return name !== "" && `/${target}`.endsWith(`/${name}`) ? capital(note.slice(name.length + 2)) : note;
}

/** What leaves with a call, whole; null where the card does not show it by itself. */
export function sendsOf(card: Fields): Sends | null {
  const sends = sub(card, "sends");
  if (sends === null) {
    return null;
  }
  const lines = sends["lines"];
  const runs = (line: unknown): readonly Run[] => subs({ line }, "line").map((one) => ({ text: str(one, "text"), source: num(one, "source") }));
  return {
    head: texts(sends, "head"),
    lines: Array.isArray(lines) ? lines.map(runs) : [],
    bytes: num(sends, "bytes") ?? 0,
    hidden: num(sends, "hidden_characters") ?? 0,
    isScanned: str(sends, "scan") === "none_found",
    sources: subs(sends, "sources").map(sourceWords),
  };
}

function sourceWords(source: Fields): string {
  const name = str(source, "name");
  switch (str(source, "kind")) {
    case "file":
      return `\`${name}\`, as it was read`;
    case "message":
      return "your own message";
    default:
      return name === "" ? "an earlier result" : `what \`${name}\` gave back`;
  }
}

/** How many lines hold a part of each source. */
export function linesOf(sends: Sends, source: number): number {
  return sends.lines.filter((line) => line.some((run) => run.source === source)).length;
}

/** The bytes that an answer releases; null where they are not known. */
export function releaseOf(card: Fields): Release | null {
  const release = sub(card, "release");
  if (release === null) {
    return null;
  }
  const host = str(release, "host");
  const place = `${host}:${num(release, "port") ?? "?"}`;
  return {
    host,
    place,
    url: `${str(release, "scheme")}://${place}`,
    sha256: str(release, "sha256"),
    bytes: num(release, "bytes") ?? 0,
    isHeldBack: texts(card, "rule_ids").some((id) => HELD_BACK.has(id)),
  };
}

/** What holds for a payload that is released, from the right that would be issued. */
export function releaseRules(card: Fields): readonly string[] {
  const life = num(subs(card, "options").find((one) => str(one, "scope") === "once") ?? {}, "lifetime_s") ?? 0;
  return [
    "Sends these stored bytes, once. Any change asks again.",
    "Follows no redirect.",
    `Ends ${lifetime(life)} after your answer, or when the goal changes.`,
  ];
}

/** Where a payload goes, and what stands before its body. */
export function requestLines(card: Fields): readonly Line[] {
  const [release, sends] = [releaseOf(card), sendsOf(card)];
  const to = release === null ? [] : [{ term: "To", words: [code(release.url)] }];
  const [first, ...rest] = sends?.head ?? [];
  const request = first === undefined ? [] : [{ term: release === null ? "Message" : "Request", words: [code(first)] }];
  return [...to, ...request, ...rest.map((line) => ({ term: "", words: [code(line)] }))];
}

/** The rows about what leaves: whose data, from where, whether it was looked through, and its hash. */
function sentLines(card: Fields, provenance: Fields | null): readonly Line[] {
  const [release, sends] = [releaseOf(card), sendsOf(card)];
  if (sends === null) {
    return [];
  }
  const lines: Line[] = provenance === null ? [] : [dataLine(provenance)];
  if (sends.isScanned) {
    lines.push({ term: "Secrets", words: [plain("None found. A scan can miss one.")] });
  }
  if (release !== null) {
    const { sha256, bytes } = release;
    const short = sha256.length > HASH_BEGIN + HASH_END ? `${sha256.slice(0, HASH_BEGIN)}…${sha256.slice(-HASH_END)}` : sha256;
    lines.push({ term: "SHA-256", words: [code(short, sha256), plain(`of the stored request, ${grouped(bytes)} bytes`, true)] });
  }
  return lines;
}

function commandLines(command: Fields): readonly Line[] {
  const where = str(command, "cwd") === "." ? "the project's folder" : str(command, "cwd");
  const environment = command["environment"];
  const pairs = Array.isArray(environment) ? environment.flatMap((pair) => (Array.isArray(pair) ? [code(pair.join("="))] : [])) : [];
  return [{ term: "Runs", words: [plain(`in ${where}, no shell`)] }, ...(pairs.length > 0 ? [{ term: "With", words: pairs }] : [])];
}

/** What the call touches, as pairs of a term and words. */
export function touches(card: Fields): readonly Line[] {
  const [provenance, command, sandbox] = [sub(card, "provenance"), sub(card, "command"), sub(card, "sandbox")];
  const [release, isShownWhole] = [releaseOf(card), sub(card, "sends") !== null];
  const lines: Line[] = provenance === null ? [] : [fromLine(provenance)];
  lines.push(...(command === null ? [] : commandLines(command)));
  const hosts = texts(card, "destinations").filter((host) => !isCommandItself(host, command));
  for (const effect of subs(card, "effects")) {
    const isSaid = str(effect, "kind") === "network" && isShownWhole && str(effect, "target") === release?.place;
    const line = isSaid ? null : effectLine(effect, isShownWhole && hosts.includes(str(effect, "target")), command);
    lines.push(...(line === null ? [] : [line]));
  }
  lines.push(...texts(card, "unknown_effects").map((unknown) => ({ term: "Unknown", words: [plain(unknown)] })));
  const known = new Set([release?.place, ...(isShownWhole ? hosts : [])]);
  const others = hosts.filter((host) => !known.has(host));
  if (others.length > 0) {
    lines.push({ term: "Connects", words: others.map((host) => code(host)) });
  }
  lines.push(...sentLines(card, provenance));
  if (!isShownWhole && provenance?.["confidential"] === true) {
    lines.push(dataLine(provenance));
  }
  const files = subs(card, "files");
  if (files.length > 0) {
    const bound = files.flatMap((one) => [
      code(str(one, "path")),
      { ...plain(str(one, "sha256").slice(0, HASH_BEGIN), true), whole: str(one, "sha256") },
    ]);
    lines.push({ term: "Bound to", words: bound });
  }
  if (sandbox !== null) {
    lines.push(...(command === null ? [] : [viewLine(sandbox)]));
    const isListed = hosts.length > 0 && texts(sandbox, "holds").includes("egress_list");
    const shut = !isListed ? "no network" : isShownWhole ? "no network but what is named" : ""; // of a program the notes say it
    const network = sandbox["network"] === true ? "network open" : shut;
    lines.push({ term: "Sandbox", words: [plain(str(sandbox, "name")), ...(network === "" ? [] : [plain(`· ${network}`, true)])] });
  }
  return lines;
}
