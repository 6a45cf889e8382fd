/**
 * The tree of sessions and the documents that show them.
 *
 * Purpose: sessions of the daemon as rows; each opened one followed and shown as a read-only text.
 * Invariant: what is shown is the reduced view and nothing else.
 * Must never: decide, or write a file.
 */

import * as vscode from "vscode";
import type { SessionInfo } from "../../../protocol/typescript/wire.ts";
import { SessionFollower } from "../common/follower.ts";
import { renderTranscript } from "../common/transcript.ts";
import { sha256 } from "../node/digest.ts";
import type { Daemon } from "./daemon.ts";

export const SCHEME = "gloveport-session";
const FRAME_MS = 50;
const LIST_LIMIT = 200;

export function sessionUri(sessionId: string): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: `/${sessionId}.txt` });
}

export class SessionTree implements vscode.TreeDataProvider<SessionInfo>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly daemon: Daemon;

  constructor(daemon: Daemon) {
    this.daemon = daemon;
  }

  refresh(): void {
    this.changed.fire();
  }

  getTreeItem(session: SessionInfo): vscode.TreeItem {
    const item = new vscode.TreeItem(session.title || session.root);
    item.id = session.sessionId;
    item.description = `${session.phase} · ${session.sandbox}`;
    item.tooltip = `${session.root}\n${session.modelLabel}\n${session.sandbox} (${session.trustLevel})`;
    item.contextValue = "session";
    item.command = { command: "gloveport.openSession", title: "Open Session", arguments: [session] };
    return item;
  }

  async getChildren(session?: SessionInfo): Promise<SessionInfo[]> {
    if (session !== undefined) {
      return [];
    }
    const connection = await this.daemon.connect();
    return [...(await connection.call("session/list", { limit: LIST_LIMIT })).sessions];
  }

  dispose(): void {
    this.changed.dispose();
  }
}

/** Read-only documents, one per session, that grow as the session streams. */
export class SessionDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly followers = new Map<string, SessionFollower>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly daemon: Daemon;
  private readonly log: vscode.LogOutputChannel;
  private readonly onActivity: () => void;
  private words = "";

  constructor(daemon: Daemon, log: vscode.LogOutputChannel, onActivity: () => void) {
    this.daemon = daemon;
    this.log = log;
    this.onActivity = onActivity;
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const follower = this.followers.get(uri.path);
    if (follower === undefined) {
      return "Not connected.";
    }
    const text = renderTranscript(follower.view.items(), follower.view.first);
    const gone = follower.ended === null ? "" : `\n! This session is gone: ${follower.ended}.\n`;
    return `${text}${gone}${this.words === "" ? "" : `\n! ${this.words}\n`}`;
  }

  /** What is the matter with the daemon, at the end of every document; empty while all is well. */
  set standing(words: string) {
    this.words = words;
    for (const path of this.followers.keys()) {
      this.changed.fire(vscode.Uri.from({ scheme: SCHEME, path }));
    }
  }

  /** Follow a session (once) and show its document. */
  async open(sessionId: string): Promise<void> {
    const uri = sessionUri(sessionId);
    if (!this.followers.has(uri.path)) {
      await this.follow(uri, sessionId);
    }
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: false, preserveFocus: true });
  }

  private async follow(uri: vscode.Uri, sessionId: string): Promise<void> {
    const connection = await this.daemon.connect();
    const follower = new SessionFollower(connection, {
      sessionId,
      windowBytes: vscode.workspace.getConfiguration("gloveport").get<number>("windowBytes", 1 << 20),
      sha256,
      onChange: () => this.schedule(uri),
      onFault: (error) => this.log.error(String(error)),
    });
    this.followers.set(uri.path, follower);
    try {
      await follower.start();
    } catch (error) {
      this.followers.delete(uri.path);
      throw error;
    }
  }

  /** At most one update of a document per frame, however fast the tokens come. */
  private schedule(uri: vscode.Uri): void {
    if (this.timers.has(uri.path)) {
      return;
    }
    const timer = setTimeout(() => {
      this.timers.delete(uri.path);
      this.changed.fire(uri);
      this.onActivity();
    }, FRAME_MS);
    this.timers.set(uri.path, timer);
  }

  /** Begin anew after the connection was lost: follow again what is still open. */
  async reconnect(): Promise<void> {
    const paths = [...this.followers.keys()];
    this.followers.clear();
    for (const path of paths) {
      const uri = vscode.Uri.from({ scheme: SCHEME, path });
      if (vscode.workspace.textDocuments.some((document) => document.uri.toString() === uri.toString())) {
        await this.follow(uri, path.slice(1, -".txt".length));
      }
    }
  }

  /** Stop following when the document is closed. */
  close(uri: vscode.Uri): void {
    const follower = this.followers.get(uri.path);
    this.followers.delete(uri.path);
    follower?.stop().catch(() => undefined);
  }

  dispose(): void {
    for (const timer of this.timers.values()) {
      clearTimeout(timer);
    }
    this.changed.dispose();
  }
}
