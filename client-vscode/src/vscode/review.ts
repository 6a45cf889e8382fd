/**
 * Pending hunks where the user works.
 *
 * Purpose: what waits in which file and where, as the daemon places it in the text the user sees now; the proposal's
 * own text beside it.
 * Invariant: places come from the daemon, which knows the unsaved text; they are asked anew when either side changed.
 * Must never: write into a file.
 */

import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { PendingHunk } from "../../../protocol/typescript/wire.ts";
import { reveal } from "../common/hidden.ts";
import { proposalOf, sortHunks } from "../common/hunks.ts";
import type { Placed } from "../common/hunks.ts";
import { splitPath } from "../common/words.ts";
import type { Daemon } from "./daemon.ts";
import { PROPOSAL, SCHEME } from "./documents.ts";
import type { Documents } from "./documents.ts";
import type { Followed } from "../common/followed.ts";
import type { Sessions } from "../common/sessions.ts";
import { offer } from "./tell.ts";

const ASK_AFTER_MS = 120;
const NOTHING = "nothing";
const OFFERED_KEY = "gloveport.lensesOffered";

export class Review implements vscode.Disposable {
  private hunks: readonly PendingHunk[] = [];
  private readonly byFile = new Map<string, readonly PendingHunk[]>();
  /** Open proposals by their address: which file each belongs to, and where its hunks stand. */
  private readonly proposals = new Map<string, { readonly file: string; readonly sessionId: string; placed: readonly Placed[] }>();
  private readonly drawn = new Map<string, string>();
  private timer: NodeJS.Timeout | null = null;
  private asked: Promise<void> = Promise.resolve();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onChange = this.changed.event;
  private readonly parts: Disposable[];

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: Sessions,
    private readonly documents: Documents,
    private readonly memory: vscode.Memento,
    private readonly log: vscode.LogOutputChannel,
  ) {
    documents.again = (uri) => this.again(uri);
    this.parts = [
      sessions.onChange((session) => this.look(session)),
      sessions.onSwitch(() => this.askSoon()),
      daemon.link.onOpened(() => this.askSoon()), // a question may have been lost with the link before
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0 && this.byFile.has(document.uri.fsPath)) {
          this.askSoon();
        }
      }),
      documents.onDidClose((uri) => this.proposals.delete(uri.toString())),
    ];
  }

  /** Every hunk that waits. */
  get all(): readonly PendingHunk[] {
    return this.hunks;
  }

  /** Hunks of a file in the order of their places. */
  of(file: string): readonly PendingHunk[] {
    return this.byFile.get(file) ?? [];
  }

  get files(): readonly string[] {
    return [...this.byFile.keys()];
  }

  /** Where hunks stand in a document: the user's file, or a proposal. */
  placesIn(document: vscode.TextDocument): readonly Placed[] {
    if (document.uri.scheme === SCHEME) {
      return this.proposals.get(document.uri.toString())?.placed ?? [];
    }
    if (document.uri.scheme !== "file") {
      return [];
    }
    return this.of(document.uri.fsPath).map((hunk) => ({ hunk, line: hunk.startLine, end: hunk.endLine, theirs: null }));
  }

  private look(session: Followed): void {
    const key = session.beside.changes.map((one) => one.digest).join(" ");
    if (this.drawn.get(session.id) !== key) {
      this.drawn.set(session.id, key);
      this.askSoon();
    }
  }

  private askSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.ask().catch((error: unknown) => this.log.warn(String(error)));
    }, ASK_AFTER_MS);
  }

  /** Ask where everything stands now; one question after the other, so that the newest answer stands. */
  ask(): Promise<void> {
    this.asked = this.asked.catch(() => undefined).then(() => this.askNow());
    return this.asked;
  }

  private async askNow(): Promise<void> {
    const with_changes = this.sessions.all.filter((one) => one.beside.changes.length > 0);
    const connection = with_changes.length === 0 ? null : await this.daemon.connect();
    const found: PendingHunk[] = [];
    for (const { id } of with_changes) {
      found.push(...((await connection?.call("change/hunks", { sessionId: id }))?.hunks ?? []));
    }
    this.hunks = found;
    this.byFile.clear();
    for (const hunk of found) {
      const file = vscode.Uri.parse(hunk.uri).fsPath;
      this.byFile.set(file, sortHunks([...(this.byFile.get(file) ?? []), hunk]));
    }
    for (const uri of this.proposals.keys()) {
      await this.draw(uri);
    }
    this.changed.fire();
  }

  private async draw(uri: string): Promise<void> {
    const entry = this.proposals.get(uri);
    if (entry === undefined) {
      return;
    }
    const hunks = this.of(entry.file).filter((hunk) => hunk.sessionId === entry.sessionId);
    const { text, placed } = proposalOf(await textOf(entry.file), hunks);
    entry.placed = placed;
    this.documents.put(vscode.Uri.parse(uri), text);
  }

  /** A comparison of a window before this one: it begins as the user's own text, and is drawn when the hunks are known. */
  private async again(uri: vscode.Uri): Promise<string | undefined> {
    if (uri.authority !== PROPOSAL) {
      return uri.authority === NOTHING ? "" : undefined;
    }
    this.proposals.set(uri.toString(), { file: uri.path, sessionId: uri.query, placed: [] });
    this.askSoon();
    return textOf(uri.path);
  }

  /** Both sides of a file's proposal: the user's own file (or nothing) and the proposal's text. */
  private async sides(file: string, sessionId: string): Promise<{ readonly left: vscode.Uri; readonly right: vscode.Uri }> {
    const exists = await vscode.workspace.fs.stat(vscode.Uri.file(file)).then(
      () => true,
      () => false,
    );
    const right = this.documents.uri(PROPOSAL, file, sessionId); // the same path as the file's: editors take another one for a rename
    this.proposals.set(right.toString(), { file, sessionId, placed: [] });
    await this.draw(right.toString());
    const nothing = this.documents.uri(NOTHING, file);
    this.documents.put(nothing, "");
    return { left: exists ? vscode.Uri.file(file) : nothing, right };
  }

  /** Open one file's proposal beside the file, at one of its hunks. */
  async compare(file: string, sessionId: string, hunkId: string | null = null): Promise<void> {
    await this.ask();
    const { left, right } = await this.sides(file, sessionId);
    const count = this.of(file).length;
    const conflicts = this.of(file).filter((hunk) => hunk.meets).length;
    const about = `${count} pending${conflicts > 0 ? `, ${conflicts} in conflict` : ""}`;
    await this.documents.load(right);
    const place = this.proposals.get(right.toString())?.placed.find((one) => one.hunk.hunkId === hunkId);
    const at = place === undefined ? {} : { selection: new vscode.Range(place.line, 0, place.line, 0) };
    await vscode.commands.executeCommand("vscode.diff", left, right, `${reveal(splitPath(file).name)} (${about})`, { preview: true, ...at });
    this.shown();
  }

  /** All files of a session in one editor. */
  async compareAll(sessionId: string, files: readonly string[], title: string): Promise<void> {
    await this.ask();
    const rows: (readonly [vscode.Uri, vscode.Uri | undefined, vscode.Uri])[] = [];
    for (const file of files) {
      const { left, right } = await this.sides(file, sessionId);
      rows.push([vscode.Uri.file(file), left.scheme === SCHEME ? undefined : left, right]);
    }
    await vscode.commands.executeCommand("vscode.changes", reveal(title), rows);
    this.shown();
  }

  private shown(): void {
    this.changed.fire();
    this.offerLenses().catch((error: unknown) => this.log.warn(String(error)));
  }

  /** A comparison shows no lenses unless the editor is set to; that is offered once. Title, menu and keys work without. */
  private async offerLenses(): Promise<void> {
    const settings = vscode.workspace.getConfiguration("diffEditor");
    if (settings.get("codeLens") === true || this.memory.get(OFFERED_KEY) === true) {
      return;
    }
    await this.memory.update(OFFERED_KEY, true);
    const words = "Accept and Reject can stand above each hunk of a comparison too. The editor’s setting diffEditor.codeLens does that.";
    if ((await offer(words, "Switch it on", "Not now")) === "Switch it on") {
      await settings.update("codeLens", true, vscode.ConfigurationTarget.Global);
    }
  }

  dispose(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    vscode.Disposable.from(...this.parts).dispose();
    this.changed.dispose();
  }
}

/** The text of a file as its editor shows it, also unsaved; nothing where there is no such file. It opens no document. */
async function textOf(file: string): Promise<string> {
  const uri = vscode.Uri.file(file);
  const open = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
  if (open !== undefined) {
    return open.getText();
  }
  try {
    return await vscode.workspace.decode(await vscode.workspace.fs.readFile(uri), { uri });
  } catch {
    return "";
  }
}
