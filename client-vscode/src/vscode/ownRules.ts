/**
 * The rules of one session.
 *
 * Purpose: they stand in the tree, are added and removed by a press, and open as a text that is theirs when it is saved.
 * Invariant: what is shown is the daemon's answer; a text that the daemon refuses changes nothing, and its words are shown;
 * what another window gave meanwhile is never replaced by what was made from an older text.
 * Must never: widen what a session may do: the daemon takes only rules that ask or deny.
 */

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { PolicyShowResult } from "../../../protocol/typescript/wire.ts";
import type { Disposable } from "../common/emitter.ts";
import { changeOwn, isSuperseded, SUBJECTS, VERDICTS, withRule, withoutRule } from "../common/ownRules.ts";
import type { RulesDoor, RuleSubject, RuleVerdict } from "../common/ownRules.ts";
import type { Sessions } from "../common/sessions.ts";
import { sha256 } from "../node/digest.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";

export const RULES_SCHEME = "gloveport-rules";
const NO_RULES_YET = [
  "# Rules of this session alone. They ask or deny, and hold from the moment this is saved; an empty text takes them away.",
  "# The form is that of rules.toml. Gloveport: Add a Rule to This Session writes one for you.",
  "",
].join("\n");

const CHANGED_MEANWHILE =
  "The rules were changed since this text was read, so nothing was saved. “File: Compare Active File with Saved” shows both; after that it can be saved.";

const encoded = (ownText: string): Uint8Array => new TextEncoder().encode(ownText === "" ? NO_RULES_YET : ownText);

export class OwnRules implements vscode.FileSystemProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.changed.event;
  private readonly parts: readonly Disposable[];
  /** Counts what was said, so that the editor sees a text as newer. */
  private version = 1;
  /** What each session's text said when the editor read it, or last gave it. */
  private readonly bases = new Map<string, string>();

  constructor(
    private readonly daemon: Daemon,
    sessions: Sessions,
    private readonly actions: Actions,
  ) {
    this.parts = [
      vscode.workspace.registerFileSystemProvider(RULES_SCHEME, this, { isCaseSensitive: true }),
      sessions.onEvents(({ session, events }) => {
        if (events.some(({ type }) => type === "SessionRulesSet")) {
          this.isNewer(session.id);
        }
      }),
    ];
  }

  /** The rules in force in a session, its own among them. */
  async shown(sessionId: string): Promise<PolicyShowResult> {
    const connection = await this.daemon.connect();
    return connection.call("policy/show", { sessionId });
  }

  private isNewer(sessionId: string): void {
    this.version += 1;
    this.changed.fire([{ type: vscode.FileChangeType.Changed, uri: uriOf(sessionId) }]);
  }

  private async give(sessionId: string, text: string, base: string): Promise<void> {
    this.actions.checkTrusted();
    const connection = await this.daemon.connect();
    await connection.call("session/rules", { clientRequestId: randomUUID(), sessionId, text, baseDigest: sha256(base) });
  }

  private door(sessionId: string): RulesDoor {
    return { read: () => this.shown(sessionId), give: (text, base) => this.give(sessionId, text, base) };
  }

  /** Ask what the rule is about and what it says, and give it to the session. Nothing where the user turned back. */
  async add(): Promise<void> {
    this.actions.checkTrusted();
    const { id } = this.actions.currentOrFail;
    const made = await askRule();
    if (made !== null) {
      await changeOwn(this.door(id), ({ rules, ownText }) => {
        const taken = rules.map((one) => one.ruleId);
        return withRule(ownText ?? "", taken, made.verdict, made.subject, made.named);
      });
    }
  }

  async remove(sessionId: string, ruleId: string): Promise<void> {
    this.actions.checkTrusted();
    if (!(await changeOwn(this.door(sessionId), ({ ownText }) => withoutRule(ownText ?? "", ruleId)))) {
      await this.edit(sessionId);
      throw new Error(`Which lines are those of ${ruleId} can’t be told. Remove them in the text.`);
    }
  }

  /** Open them as a text; saving it gives them to the session. */
  async edit(sessionId: string): Promise<void> {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uriOf(sessionId)), { preview: false });
  }

  async readFile(uri: vscode.Uri): Promise<Uint8Array> {
    const { ownText = "" } = await this.shown(sessionOf(uri));
    this.bases.set(sessionOf(uri), ownText);
    return encoded(ownText);
  }

  /** What was typed stays in the editor, unsaved, where it is refused. */
  async writeFile(uri: vscode.Uri, content: Uint8Array): Promise<void> {
    const sessionId = sessionOf(uri);
    const base = this.bases.get(sessionId);
    if (base === undefined) {
      throw new Error(CHANGED_MEANWHILE); // typed before the window was loaded again: what it was made from is not known
    }
    const text = new TextDecoder().decode(content);
    try {
      await this.give(sessionId, text, base);
    } catch (error) {
      if (!isSuperseded(error)) {
        throw error;
      }
      this.isNewer(sessionId); // so that the editor knows, too
      throw new Error(CHANGED_MEANWHILE, { cause: error });
    }
    this.bases.set(sessionId, text);
    this.version += 1;
  }

  async stat(uri: vscode.Uri): Promise<vscode.FileStat> {
    const { ownText = "" } = await this.shown(sessionOf(uri));
    const { length } = encoded(ownText);
    return { type: vscode.FileType.File, ctime: 0, mtime: this.version, size: length };
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined); // changes are told as the session's events come
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  createDirectory(): never {
    throw vscode.FileSystemError.NoPermissions("Rules of a session have no folders");
  }

  delete(): never {
    throw vscode.FileSystemError.NoPermissions("Save an empty text to take the rules away");
  }

  rename(): never {
    throw vscode.FileSystemError.NoPermissions("Rules belong to their session");
  }

  dispose(): void {
    vscode.Disposable.from(...this.parts, this.changed).dispose();
  }
}

function uriOf(sessionId: string): vscode.Uri {
  return vscode.Uri.from({ scheme: RULES_SCHEME, path: `/${sessionId}/rules.toml` });
}

function sessionOf(uri: vscode.Uri): string {
  return uri.path.split("/")[1] ?? "";
}

interface Made {
  readonly subject: RuleSubject;
  readonly verdict: RuleVerdict;
  readonly named: string;
}

async function askRule(): Promise<Made | null> {
  const subject = await vscode.window.showQuickPick(SUBJECTS, { title: "A rule of this session (1 of 3)", placeHolder: "What is it about?" });
  if (subject === undefined) {
    return null;
  }
  const said = await vscode.window.showQuickPick(VERDICTS, {
    title: `${subject.label} (2 of 3)`,
    placeHolder: "A rule only narrows what this session may do",
  });
  if (said === undefined) {
    return null;
  }
  const named = subject.names === null ? "" : await askNamed(subject);
  return named === undefined ? null : { subject, verdict: said.verdict, named };
}

function askNamed(subject: RuleSubject): Thenable<string | undefined> {
  return vscode.window.showInputBox({
    title: `${subject.label} (3 of 3)`,
    prompt: subject.prompt,
    ignoreFocusOut: true,
    validateInput: (typed) => (typed.trim() === "" ? subject.prompt : null),
  });
}
