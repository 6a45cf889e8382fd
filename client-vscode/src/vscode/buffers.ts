/**
 * Open documents, told to the daemon.
 *
 * Purpose: the daemon knows the unsaved words of this window, so that nothing is decided over them.
 * Invariant: every open document of a folder of this window is told with its whole text at the start of a connection,
 * and each change of it after that in order.
 * Must never: tell of a document outside the window's folders.
 */

import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { Connection } from "../node/connection.ts";
import type { Daemon } from "./daemon.ts";

/** Longer documents are not told; their files are judged by what is saved. */
const TEXT_CHARS_MAX = 4_000_000;

export class Buffers implements vscode.Disposable {
  private connection: Connection | null = null;
  private readonly told = new Set<string>();
  private readonly parts: Disposable[];

  constructor(daemon: Daemon) {
    const watcher = vscode.workspace.createFileSystemWatcher("**/*", true, true, false);
    this.parts = [
      watcher,
      watcher.onDidDelete((uri) => this.deleted(uri)),
      daemon.onConnection((connection) => this.begin(connection)),
      daemon.link.onLost(() => this.end()),
      vscode.workspace.onDidOpenTextDocument((document) => this.open(document)),
      vscode.workspace.onDidCloseTextDocument((document) => this.close(document)),
      vscode.workspace.onDidChangeTextDocument((event) => this.change(event)),
      vscode.workspace.onDidSaveTextDocument((document) => this.save(document)),
    ];
  }

  private begin(connection: Connection): void {
    this.connection = connection;
    this.told.clear();
    connection.onAsked("workspace/applyEdit", (params) => applyEdit(params));
    vscode.workspace.textDocuments.forEach((document) => this.open(document));
  }

  private end(): void {
    this.connection = null;
    this.told.clear();
  }

  private open(document: vscode.TextDocument): void {
    const uri = document.uri.toString();
    const ours =
      document.uri.scheme === "untitled" || (document.uri.scheme === "file" && vscode.workspace.getWorkspaceFolder(document.uri) !== undefined);
    const text = document.getText();
    if (this.connection === null || !ours || this.told.has(uri) || text.length > TEXT_CHARS_MAX) {
      return;
    }
    this.told.add(uri);
    const { languageId, version } = document;
    this.connection.tell("textDocument/didOpen", { textDocument: { uri, languageId, version, text } });
  }

  private change({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const uri = document.uri.toString();
    if (this.connection === null || contentChanges.length === 0) {
      return;
    }
    if (!this.told.has(uri)) {
      this.open(document);
      return;
    }
    const changes = contentChanges.map(({ range, text }) => ({ range: { start: range.start, end: range.end }, text }));
    this.connection.tell("textDocument/didChange", { textDocument: { uri, version: document.version }, contentChanges: changes });
  }

  private close(document: vscode.TextDocument): void {
    const uri = document.uri.toString();
    if (this.told.delete(uri)) {
      this.connection?.tell("textDocument/didClose", { textDocument: { uri } });
    }
  }

  /** The editor keeps what a deleted file held; where the user has written nothing, that is no unsaved text. */
  private deleted(uri: vscode.Uri): void {
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
    if (document?.isDirty === false) {
      this.close(document);
    }
  }

  private save(document: vscode.TextDocument): void {
    const uri = document.uri.toString();
    if (this.told.has(uri)) {
      this.connection?.tell("textDocument/didSave", { textDocument: { uri } });
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.parts).dispose();
  }
}

interface AskedPosition {
  readonly line: number;
  readonly character: number;
}

interface AskedEdit {
  readonly range: { readonly start: AskedPosition; readonly end: AskedPosition };
  readonly newText: string;
}

interface AskedDocument {
  readonly textDocument: { readonly uri: string; readonly version: number | null };
  readonly edits: readonly AskedEdit[];
}

/**
 * Make the edits the daemon asks for in open documents, all or none, and only on the versions it speaks of. A document
 * that was saved before is saved again; where unsaved words of the user stand, saving stays theirs.
 */
async function applyEdit(params: unknown): Promise<{ readonly applied: boolean; readonly failureReason?: string }> {
  const { edit } = params as { readonly edit: { readonly documentChanges?: readonly AskedDocument[] } };
  const wanted = new vscode.WorkspaceEdit();
  const saved: vscode.TextDocument[] = [];
  for (const { textDocument, edits } of edit.documentChanges ?? []) {
    const uri = vscode.Uri.parse(textDocument.uri);
    const document = vscode.workspace.textDocuments.find((one) => one.uri.fsPath === uri.fsPath && one.uri.scheme === uri.scheme);
    if (document === undefined || (textDocument.version !== null && textDocument.version !== document.version)) {
      return { applied: false, failureReason: "the document changed meanwhile" };
    }
    if (!document.isDirty && !document.isUntitled) {
      saved.push(document);
    }
    for (const { range, newText } of edits) {
      wanted.replace(document.uri, new vscode.Range(range.start.line, range.start.character, range.end.line, range.end.character), newText);
    }
  }
  const applied = await vscode.workspace.applyEdit(wanted);
  if (applied) {
    saved.forEach((document) => void document.save()); // the daemon is answered first: it looks at the text alone
  }
  return { applied };
}
