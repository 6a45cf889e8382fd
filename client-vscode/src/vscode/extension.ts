/**
 * The extension's composition root.
 *
 * Purpose: commands and views, wired to one connection.
 * Invariant: a restricted workspace can look, not start or decide.
 * Must never: collect or send telemetry.
 */

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { DaemonTold, SessionInfo } from "../../../protocol/typescript/wire.ts";
import { Daemon } from "./daemon.ts";
import { SCHEME, SessionDocuments, SessionTree } from "./sessions.ts";

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Gloveport", { log: true });
  const version = (context.extension.packageJSON as { readonly version: string }).version;
  const daemon = new Daemon(log, version);
  const tree = new SessionTree(daemon);
  const documents = new SessionDocuments(daemon, log, () => tree.refresh());

  /** A command whose failure is shown in words and kept in the log. */
  const command = (name: string, run: (session?: SessionInfo) => Promise<unknown> | unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`gloveport.${name}`, async (session?: SessionInfo) => {
      try {
        await run(session);
      } catch (error) {
        const words = error instanceof Error ? error.message : String(error);
        log.error(words);
        void vscode.window.showErrorMessage(`Gloveport: ${words}`);
      }
    });

  context.subscriptions.push(
    log,
    daemon,
    tree,
    documents,
    vscode.window.registerTreeDataProvider("gloveport.sessions", tree),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, documents),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (document.uri.scheme === SCHEME) {
        documents.close(document.uri);
      }
    }),
    daemon.onLost(() => {
      documents.standing = "";
      tree.refresh();
    }),
    daemon.onTold((notice) => showNotice(log, documents, notice)),
    command("startSession", () => startSession(daemon, documents, tree)),
    command("openSession", (session) => session && documents.open(session.sessionId)),
    command("sendMessage", (session) => session && sendMessage(daemon, documents, session.sessionId)),
    command("cancelTurn", (session) => session && cancelTurn(daemon, session.sessionId)),
    command("refreshSessions", async () => {
      tree.refresh();
      await documents.reconnect();
    }),
    command("showOutput", () => log.show()),
  );
}

export function deactivate(): void {
  // Everything is disposed with the context; the daemon goes on with its turns.
}

/** The daemon saves nothing, or saves again: shown at once, and at the end of every open session's text. */
function showNotice(log: vscode.LogOutputChannel, documents: SessionDocuments, notice: DaemonTold): void {
  documents.standing = notice.accepting ? "" : notice.words;
  if (notice.accepting) {
    log.info(notice.words);
    void vscode.window.showInformationMessage(`Gloveport: ${notice.words}`);
  } else {
    log.error(notice.words);
    void vscode.window.showErrorMessage(`Gloveport: ${notice.words}`);
  }
}

async function startSession(daemon: Daemon, documents: SessionDocuments, tree: SessionTree): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    throw new Error("This workspace is restricted. Trust it before an agent works in it.");
  }
  const root = await chooseFolder();
  const text = root && (await askMessage("What should be done?"));
  if (!text) {
    return;
  }
  const connection = await daemon.connect();
  const session = await connection.call("session/start", { clientRequestId: randomUUID(), root });
  await documents.open(session.sessionId);
  await connection.call("turn/start", { clientRequestId: randomUUID(), sessionId: session.sessionId, text });
  tree.refresh();
}

async function sendMessage(daemon: Daemon, documents: SessionDocuments, sessionId: string): Promise<void> {
  const text = await askMessage("Message");
  if (text) {
    await documents.open(sessionId);
    const connection = await daemon.connect();
    await connection.call("turn/queue", { clientRequestId: randomUUID(), sessionId, text });
  }
}

async function cancelTurn(daemon: Daemon, sessionId: string): Promise<void> {
  const connection = await daemon.connect();
  await connection.call("turn/cancel", { clientRequestId: randomUUID(), sessionId });
}

async function chooseFolder(): Promise<string | undefined> {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
  if (folders.length === 0) {
    throw new Error("Open a folder first; an agent works in a folder.");
  }
  const picked = folders.length === 1 ? folders[0] : await vscode.window.showWorkspaceFolderPick();
  return picked?.uri.fsPath;
}

async function askMessage(prompt: string): Promise<string | undefined> {
  return vscode.window.showInputBox({ prompt, ignoreFocusOut: true });
}
