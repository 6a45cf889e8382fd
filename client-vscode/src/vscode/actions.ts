/**
 * What the user asks of the daemon.
 *
 * Purpose: one function for each thing that panel, trees and commands ask for.
 * Invariant: every changing request has an id of its own; a restricted window starts and decides nothing.
 * Must never: answer for the user, or decide on what was not shown.
 */

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import * as vscode from "vscode";
import type { ChangeInfo, Replaced } from "../../../protocol/typescript/wire.ts";
import { withAttachments } from "../common/attach.ts";
import { Emitter } from "../common/emitter.ts";
import { foundIn } from "../common/found.ts";
import { sinceShown } from "../common/keeping.ts";
import { beginWithin } from "../common/bounds.ts";
import type { Answer, Attachment, Found, SendVerb, SteeringKind } from "../common/panel.ts";
import { labelText } from "../common/plain.ts";
import { str } from "../common/toolRow.ts";
import { sub } from "../common/cardModel.ts";
import { askImage } from "./askImage.ts";
import type { Daemon } from "./daemon.ts";
import type { Followed } from "../common/followed.ts";
import type { Fresh } from "../common/fresh.ts";
import type { Sessions } from "../common/sessions.ts";
import { confirm, show } from "./tell.ts";

/** What was asked for needs a session, and none is shown. */
export class NoSession extends Error {
  override readonly name = "NoSession";
}

export class Actions {
  private readonly daemon: Daemon;
  private readonly sessions: Sessions;
  private readonly fresh: Fresh;
  private readonly answering = new Emitter<string>();
  /** A card is answered from this window, by its item; told before the answer is sent. */
  readonly onAnswering = this.answering.event;

  constructor(daemon: Daemon, sessions: Sessions, fresh: Fresh) {
    this.daemon = daemon;
    this.sessions = sessions;
    this.fresh = fresh;
  }

  /** Raises in a restricted window. */
  checkTrusted(): void {
    if (!vscode.workspace.isTrusted) {
      throw new Error("This workspace is restricted. Trust it before an agent works in it.");
    }
  }

  get currentOrFail(): Followed {
    const { current } = this.sessions;
    if (current === null) {
      throw new NoSession("No session is open. The first message begins one.");
    }
    return current;
  }

  /** The folder an agent is to work in. Raises when none is open; null when the user chose none. */
  async chooseRoot(): Promise<string | null> {
    const { roots } = this.sessions;
    if (roots.length === 0) {
      throw new Error("Open a folder first: an agent works in a folder.");
    }
    if (roots.length === 1) {
      return roots[0] ?? null;
    }
    const active = vscode.window.activeTextEditor?.document.uri;
    const near = active === undefined ? undefined : vscode.workspace.getWorkspaceFolder(active)?.uri.fsPath;
    const rows = roots.map((root) => ({
      label: labelText(root.slice(root.lastIndexOf("/") + 1)),
      description: labelText(root),
      root,
      picked: root === near,
    }));
    const picked = await vscode.window.showQuickPick(rows, { title: "Folder the agent works in", placeHolder: "One session works in one folder" });
    return picked?.root ?? null;
  }

  titleOf(sessionId: string): string {
    return this.sessions.title(sessionId);
  }

  /** Begin a session and show it; null when the user turned back. */
  async start(): Promise<string | null> {
    this.checkTrusted();
    const root = await this.chooseRoot();
    const connection = await this.daemon.connect();
    await this.fresh.learn(connection);
    if (this.fresh.model === null) {
      throw new Error("No model is set up yet. Keep a key or open config.toml; both stand at the top of this panel.");
    }
    if (root === null || !(await this.ensureTrust(root))) {
      return null;
    }
    const { sandbox } = this.fresh;
    const { sessionId } = await this.fresh.begin(connection, root, randomUUID);
    if (sandbox !== "" && !(await this.withImage(sessionId, sandbox))) {
      return null;
    }
    await this.limit(sessionId);
    this.fresh.spend();
    await this.sessions.show(sessionId);
    this.sessions.refreshSoon();
    return sessionId;
  }

  /** The image that the folder asks for, in the sandbox that was chosen. False when the user turned back: the session is gone. */
  private async withImage(sessionId: string, sandbox: string): Promise<boolean> {
    const connection = await this.daemon.connect();
    let isBegun = false;
    try {
      const image = await askImage(connection, sessionId, sandbox);
      if (image !== undefined && image !== "") {
        await connection.call("sandbox/choose", { clientRequestId: randomUUID(), sessionId, sandbox, image });
      }
      isBegun = image !== undefined;
    } finally {
      if (!isBegun) {
        await connection.call("session/delete", { clientRequestId: randomUUID(), sessionId });
      }
    }
    return isBegun;
  }

  /** Set the limits of the user's settings before the first message; a session that can't have them does not begin. */
  private async limit(sessionId: string): Promise<void> {
    const connection = await this.daemon.connect();
    const settings = vscode.workspace.getConfiguration("gloveport");
    const wanted = {
      turnTokens: settings.get<unknown>("turnTokens"),
      sessionTokens: settings.get<unknown>("sessionTokens"),
      turnUsd: settings.get<unknown>("turnUsd"),
      sessionUsd: settings.get<unknown>("sessionUsd"),
    };
    await beginWithin(connection, wanted, () => ({ clientRequestId: randomUUID(), sessionId }));
  }

  /** A folder without a level yet gets one from the user. False when the user turned back; raises where no session can begin in it. */
  private async ensureTrust(root: string): Promise<boolean> {
    const connection = await this.daemon.connect();
    const { trustLevel } = await connection.call("workspace/show", { root });
    if (trustLevel !== "unset") {
      return true;
    }
    const chosen = await pickTrust(root, undefined);
    if (chosen === undefined) {
      return false;
    }
    await connection.call("workspace/trust", { clientRequestId: randomUUID(), root, trustLevel: chosen });
    return true;
  }

  async chooseTrust(): Promise<void> {
    this.checkTrusted();
    const root = this.sessions.current?.beside.detail?.info.root ?? (await this.chooseRoot());
    if (root === null) {
      return;
    }
    const connection = await this.daemon.connect();
    const { workspaces } = await connection.call("workspace/list", {});
    const level = workspaces.find((one) => one.root === root)?.trustLevel;
    const chosen = await pickTrust(root, level);
    if (chosen !== undefined && chosen !== level) {
      await connection.call("workspace/trust", { clientRequestId: randomUUID(), root, trustLevel: chosen });
      this.sessions.refreshSoon();
    }
  }

  /** Send words to the shown session, or to a new one. False when the user turned back. */
  async send(verb: SendVerb, text: string, kind: SteeringKind | null, attachments: readonly Attachment[]): Promise<boolean> {
    this.checkTrusted();
    const sessionId = this.sessions.current?.id ?? (await this.start());
    if (sessionId === null) {
      return false;
    }
    const connection = await this.daemon.connect();
    const clientRequestId = randomUUID();
    const whole = withAttachments(text, attachments);
    const expectedTurnId = this.sessions.current?.beside.detail?.turnId ?? null;
    if (verb === "steer" && expectedTurnId !== null) {
      await connection.call("turn/steer", { clientRequestId, sessionId, expectedTurnId, text: whole, kind });
    } else if (verb === "interrupt" && expectedTurnId !== null) {
      await connection.call("turn/interrupt", { clientRequestId, sessionId, expectedTurnId, text: whole });
    } else if (verb === "start") {
      await connection.call("turn/start", { clientRequestId, sessionId, text: whole });
    } else {
      await connection.call("turn/queue", { clientRequestId, sessionId, text: whole });
    }
    return true;
  }

  /** Sessions of this window's folders in which words were said; of all folders where none is open. */
  async search(text: string): Promise<Found> {
    const connection = await this.daemon.connect();
    const roots = this.sessions.roots.length === 0 ? [null] : this.sessions.roots;
    const answers = await Promise.all(roots.map((root) => connection.call("session/search", { text, root })));
    return foundIn(text, answers, (id) => this.sessions.title(id));
  }

  async cancel(): Promise<void> {
    const { id, beside } = this.currentOrFail;
    const connection = await this.daemon.connect();
    await connection.call("turn/cancel", { clientRequestId: randomUUID(), sessionId: id, turnId: beside.detail?.turnId ?? null });
  }

  async unqueue(messageId: string): Promise<void> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    await connection.call("turn/unqueue", { clientRequestId: randomUUID(), sessionId: this.currentOrFail.id, messageId });
  }

  /** Give a queued message other words. True: it was still waiting. */
  async editQueued(messageId: string, text: string): Promise<true> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    await connection.call("turn/edit", { clientRequestId: randomUUID(), sessionId: this.currentOrFail.id, messageId, text });
    return true;
  }

  async steerQueued(messageId: string): Promise<void> {
    this.checkTrusted();
    const { id, beside } = this.currentOrFail;
    const expectedTurnId = beside.detail?.turnId ?? null;
    if (expectedTurnId === null) {
      throw new Error("No turn is running any more; the message goes on by itself.");
    }
    const connection = await this.daemon.connect();
    await connection.call("turn/steer", { clientRequestId: randomUUID(), sessionId: id, expectedTurnId, messageId });
  }

  /** Answer a card that was shown: by its digest, with the option that was chosen or less of it. */
  async answer(sessionId: string, answer: Answer): Promise<string> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    this.answering.fire(`approval/${answer.approvalId}`);
    const narrowed = answer.uses === null ? null : { uses: answer.uses };
    const reply = await connection.call("approval/resolve", {
      clientRequestId: randomUUID(),
      sessionId,
      approvalId: answer.approvalId,
      cardDigest: answer.cardDigest,
      decision: answer.allow ? "allow" : "deny",
      option: answer.option,
      narrowedTo: narrowed,
      expiresAt: answer.lifetimeS === null ? null : Date.now() * 1000 + answer.lifetimeS * 1_000_000,
    });
    return reply.sentence;
  }

  /** The cards that wait, of all followed sessions. */
  waiting(): readonly {
    readonly session: Followed;
    readonly approvalId: string;
    readonly cardDigest: string;
    readonly title: string;
    readonly summary: string;
    readonly risk: string;
  }[] {
    return this.sessions.all.flatMap((session) =>
      (session.view?.items() ?? [])
        .filter((item) => item.kind === "approval" && str(item.fields, "state") === "pending")
        .map((item) => {
          const card = sub(item.fields, "card") ?? {};
          const approvalId = item.id.slice(item.id.indexOf("/") + 1);
          return {
            session,
            approvalId,
            cardDigest: str(item.fields, "cardDigest"),
            title: str(card, "title"),
            summary: str(card, "summary"),
            risk: str(card, "risk"),
          };
        }),
    );
  }

  /** Decide whole files, or some of their hunks, as they were shown: all of them or none. */
  async decide(
    sessionId: string,
    action: "accept" | "reject",
    changes: readonly ChangeInfo[],
    hunkDigests: readonly string[] | null = null,
    replaces: readonly Replaced[] = [],
  ): Promise<void> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    const selections = changes.map(({ changeId, digest }) => ({ changeId, digest, hunkDigests, replaces }));
    try {
      await connection.call(`change/${action}`, { clientRequestId: randomUUID(), sessionId, selections });
    } catch (error) {
      throw sinceShown(error, changes);
    }
  }

  async undoLast(): Promise<readonly string[]> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    const done = await connection.call("change/undo", { clientRequestId: randomUUID(), sessionId: this.currentOrFail.id });
    return done.paths;
  }

  async redoLast(): Promise<readonly string[]> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    const done = await connection.call("change/redo", { clientRequestId: randomUUID(), sessionId: this.currentOrFail.id });
    return done.paths;
  }

  /** What putting the folder back to a point would do, as a text. */
  async previewSnapshot(sessionId: string, point: string): Promise<string> {
    const connection = await this.daemon.connect();
    const found = await connection.call("snapshot/preview", { sessionId, point });
    const files = found.files.map((file) => `${file.action}  ${file.path}\n${file.diff ?? ""}`);
    const left = found.cannotUndo.map((one) => `not undone: ${one.title}. ${one.words}`);
    return [...left, ...files].join("\n") || "Nothing would change.";
  }

  /** Put the folder back to a point, after its preview was shown and confirmed. */
  async restoreSnapshot(sessionId: string, point: string): Promise<void> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    const found = await connection.call("snapshot/preview", { sessionId, point });
    if (found.digest === null) {
      throw new Error("Nothing would change.");
    }
    const files = found.files.map((file) => `${file.action}: ${file.path}`);
    const left = found.cannotUndo.map((one) => `Not undone: ${one.title}. ${one.words}`);
    if ((await confirm("Put the folder back to this point?", [...files, ...left].join("\n"), "Put back")) === "Put back") {
      await connection.call("snapshot/restore", { clientRequestId: randomUUID(), sessionId, point, digest: found.digest });
    }
  }

  async rename(sessionId: string): Promise<void> {
    this.checkTrusted();
    const title = await vscode.window.showInputBox({ prompt: "Title of the session", value: this.sessions.title(sessionId) });
    if (title) {
      const connection = await this.daemon.connect();
      await connection.call("session/rename", { clientRequestId: randomUUID(), sessionId, title });
      this.sessions.refreshSoon();
    }
  }

  async remove(sessionId: string): Promise<void> {
    this.checkTrusted();
    const title = this.sessions.title(sessionId) || sessionId;
    const detail = "Its log and its copy of the folder go. The folder itself is not touched. This can’t be undone.";
    if ((await confirm(`Delete the session “${title}”?`, detail, "Delete")) !== "Delete") {
      return;
    }
    const connection = await this.daemon.connect();
    await connection.call("session/delete", { clientRequestId: randomUUID(), sessionId, evenUndecided: true });
    this.sessions.forget(sessionId);
    this.sessions.refreshSoon();
  }

  async revoke(sessionId: string, grantId: string): Promise<void> {
    this.checkTrusted();
    const connection = await this.daemon.connect();
    await connection.call("grant/revoke", { clientRequestId: randomUUID(), sessionId, grantId });
  }

  async why(callId: string): Promise<void> {
    const connection = await this.daemon.connect();
    const found = await connection.call("tool/why", { sessionId: this.currentOrFail.id, callId });
    const detail = [found.decision, found.evidence, found.hint].filter((one) => one !== "").join("\n\n");
    await show(`${found.tool}: ${found.outcome}`, detail);
  }

  async openFile(path: string, line: number | null): Promise<void> {
    const root = this.currentOrFail.beside.detail?.info.root ?? "";
    const uri = vscode.Uri.file(join(root, path));
    const selection = line === null ? undefined : new vscode.Range(line - 1, 0, line - 1, 0);
    await vscode.window.showTextDocument(uri, selection === undefined ? { preview: true } : { preview: true, selection });
  }
}

const LEVELS = [
  { level: "trusted", label: "Trusted", detail: "Your own code. Any sandbox may be chosen, also a weak one." },
  { level: "restricted", label: "Restricted", detail: "Code you did not write. The sandbox hides your files and has no network." },
  { level: "untrusted", label: "Untrusted", detail: "Code that may be hostile. Programs run in a virtual machine or not at all." },
] as const;

async function pickTrust(root: string, current: string | undefined): Promise<(typeof LEVELS)[number]["level"] | undefined> {
  const rows = LEVELS.map((one) => ({ ...one, description: one.level === current ? "in force" : "" }));
  const title = `How far do you trust what lies in ${root.slice(root.lastIndexOf("/") + 1)}?`;
  const picked = await vscode.window.showQuickPick(rows, {
    title,
    placeHolder: "This decides what may run where; you can change it later",
    ignoreFocusOut: true,
  });
  return picked?.level;
}
