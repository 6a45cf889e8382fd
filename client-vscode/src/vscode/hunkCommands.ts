/**
 * Deciding hunks by lens, menu and key.
 *
 * Purpose: accept, reject, take one side of a conflict, next, compare and redo, for the hunk that was named or the one at the caret.
 * Invariant: what is decided is named by the digest of what was shown.
 * Must never: decide on a hunk that nobody pointed at.
 */

import * as vscode from "vscode";
import type { ChangeInfo, PendingHunk } from "../../../protocol/typescript/wire.ts";
import type { Actions } from "./actions.ts";
import type { HunkMarks } from "./hunkMarks.ts";
import type { Review } from "./review.ts";
import type { Sessions } from "../common/sessions.ts";

export class HunkCommands {
  constructor(
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly review: Review,
    private readonly marks: HunkMarks,
    private readonly redo: (words: string) => Promise<void>,
  ) {}

  private pointed(given: unknown): PendingHunk {
    const named = typeof given === "object" && given !== null && "hunkDigest" in given ? (given as PendingHunk) : undefined;
    const hunk = named ?? this.marks.atCaret()?.hunk;
    if (hunk === undefined) {
      throw new Error("No pending hunk is here. Put the caret in one; Alt+F5 goes to the next.");
    }
    return hunk;
  }

  private changeOf(hunk: PendingHunk): ChangeInfo {
    const changes = this.sessions.all.find((one) => one.id === hunk.sessionId)?.beside.changes ?? [];
    const change = changes.find((one) => one.changeId === hunk.changeId);
    if (change === undefined) {
      throw new Error("This proposal is not pending any more.");
    }
    return { ...change, digest: hunk.digest };
  }

  async decideHunk(action: "accept" | "reject", given: unknown): Promise<void> {
    const hunk = this.pointed(given);
    await this.actions.decide(hunk.sessionId, action, [this.changeOf(hunk)], hunk.hunkDigest === null ? null : [hunk.hunkDigest]);
    await this.review.ask();
  }

  /** The proposal's side of a conflict: the user's lines give way, as they were shown. */
  async takeHunk(given: unknown): Promise<void> {
    const hunk = this.pointed(given);
    const { hunkDigest, userDigest = null } = hunk;
    if (hunkDigest === null || userDigest === null) {
      throw new Error("You did not change these lines. Accept the hunk instead.");
    }
    const replaces = [{ hunkDigest, userDigest }];
    await this.actions.decide(hunk.sessionId, "accept", [this.changeOf(hunk)], [hunkDigest], replaces);
    await this.review.ask();
  }

  async decideFile(action: "accept" | "reject"): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const hunk = this.marks.atCaret()?.hunk ?? (editor === undefined ? undefined : this.review.placesIn(editor.document)[0]?.hunk);
    if (hunk === undefined) {
      throw new Error("Nothing is proposed for this file.");
    }
    await this.actions.decide(hunk.sessionId, action, [this.changeOf(hunk)]);
    await this.review.ask();
  }

  /** Go to the next hunk in this editor, else in the next file. */
  async go(step: 1 | -1): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const placed = editor === undefined ? [] : this.review.placesIn(editor.document);
    const line = editor?.selection.active.line ?? -1;
    const ahead = step === 1 ? placed.find((one) => one.line > line) : [...placed].reverse().find((one) => one.line < line);
    if (editor !== undefined && ahead !== undefined) {
      reveal(editor, ahead.line);
      return;
    }
    const { files } = this.review;
    const at = files.indexOf(editor?.document.uri.fsPath ?? "");
    const file = files[(at + step + files.length) % Math.max(1, files.length)];
    if (file === undefined) {
      throw new Error("No hunk waits.");
    }
    if (editor !== undefined && placed.length > 0 && (files.length === 1 || editor.document.uri.scheme !== "file")) {
      reveal(editor, (step === 1 ? placed[0] : placed.at(-1))?.line ?? 0);
      return;
    }
    const shown = await vscode.window.showTextDocument(vscode.Uri.file(file), { preview: true });
    reveal(shown, (step === 1 ? this.review.of(file)[0] : this.review.of(file).at(-1))?.startLine ?? 0);
  }

  async compare(given: unknown): Promise<void> {
    const hunk = this.pointed(given);
    await this.review.compare(vscode.Uri.parse(hunk.uri).fsPath, hunk.sessionId, hunk.hunkId);
  }

  async askToRedo(given: unknown): Promise<void> {
    const hunk = this.pointed(given);
    await this.redo(
      `I changed \`${hunk.path}\` around line ${hunk.startLine + 1} after you proposed your edit there. Look at it again and make your edit on top of mine.`,
    );
  }
}

function reveal(editor: vscode.TextEditor, line: number): void {
  const at = new vscode.Position(Math.min(line, editor.document.lineCount - 1), 0);
  editor.selection = new vscode.Selection(at, at);
  editor.revealRange(new vscode.Range(at, at), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}
