/**
 * Marks and lenses of pending hunks in editors.
 *
 * Purpose: show in the user's file and in a proposal what waits, and offer to decide it there.
 * Invariant: a mark stands where `Review` says; each action of a lens is a command, a menu entry and a key too.
 * Must never: look like the user's own text was deleted or written.
 */

import * as vscode from "vscode";
import type { PendingHunk } from "../../../protocol/typescript/wire.ts";
import { refusedWords } from "../common/keeping.ts";
import { besideWords, hoverLines, lensWords, placeAt } from "../common/hunks.ts";
import type { Placed } from "../common/hunks.ts";
import { SCHEME } from "./documents.ts";
import type { Review } from "./review.ts";

/** A space that stays behind a sign; a plain one is drawn as nothing there. */
const GAP = "\u00A0";

const colour = (id: string): vscode.ThemeColor => new vscode.ThemeColor(id);

/** The new lines of a hunk as text: nothing in them is a link, a command or a picture. */
function hoverOf(hunk: PendingHunk): Pick<vscode.DecorationOptions, "hoverMessage"> {
  const words = hoverLines(hunk);
  return words === "" ? {} : { hoverMessage: new vscode.MarkdownString().appendCodeblock(words, "text") };
}

export class HunkMarks implements vscode.CodeLensProvider, vscode.Disposable {
  private readonly lensChanged = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.lensChanged.event;
  private readonly waits: vscode.TextEditorDecorationType;
  private readonly inserts: vscode.TextEditorDecorationType;
  private readonly proposed: vscode.TextEditorDecorationType;
  private readonly yours: vscode.TextEditorDecorationType;
  private readonly conflict: vscode.TextEditorDecorationType;
  /** In the gutter, at the first line of each. */
  private readonly signs: Readonly<Record<"hunk" | "conflict", vscode.TextEditorDecorationType>>;
  private readonly parts: vscode.Disposable[];

  constructor(
    media: vscode.Uri,
    private readonly review: Review,
  ) {
    const ruler = { overviewRulerLane: vscode.OverviewRulerLane.Right };
    const make = (options: vscode.DecorationRenderOptions): vscode.TextEditorDecorationType =>
      vscode.window.createTextEditorDecorationType({ isWholeLine: true, ...options });
    this.waits = make({
      ...ruler,
      backgroundColor: colour("list.hoverBackground"),
      overviewRulerColor: colour("editorGutter.modifiedBackground"),
    });
    this.inserts = make({ ...ruler, overviewRulerColor: colour("editorGutter.addedBackground") });
    this.proposed = make({ ...ruler, overviewRulerColor: colour("editorGutter.addedBackground") });
    this.yours = make({ backgroundColor: colour("merge.currentContentBackground") });
    this.conflict = make({
      backgroundColor: colour("merge.incomingContentBackground"),
      overviewRulerColor: colour("editorWarning.foreground"),
      overviewRulerLane: vscode.OverviewRulerLane.Right,
    });
    const sign = (name: string): vscode.TextEditorDecorationType =>
      make({ gutterIconPath: vscode.Uri.joinPath(media, `${name}.svg`), gutterIconSize: "contain" });
    this.signs = { hunk: sign("hunk"), conflict: sign("conflict") };
    this.parts = [
      review.onChange(() => this.draw()),
      vscode.window.onDidChangeVisibleTextEditors(() => this.draw()),
      vscode.window.onDidChangeActiveTextEditor(() => this.tellKeys()),
      vscode.window.onDidChangeTextEditorSelection(() => this.tellKeys()),
      vscode.languages.registerCodeLensProvider([{ scheme: "file" }, { scheme: SCHEME }], this),
    ];
  }

  /** The place at the caret of the active editor. */
  atCaret(): Placed | undefined {
    const editor = vscode.window.activeTextEditor;
    return editor === undefined ? undefined : placeAt(this.review.placesIn(editor.document), editor.selection.active.line);
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const placed = this.review.placesIn(document);
    const mine = document.uri.scheme === "file";
    return placed.flatMap((one, index) => {
      const range = new vscode.Range(one.line, 0, one.line, 0);
      const lens = (title: string, command: string): vscode.CodeLens =>
        new vscode.CodeLens(range, { title, command: `gloveport.${command}`, arguments: [one.hunk] });
      const head = lens(lensWords(one.hunk, index + 1, placed.length), "compareHunk");
      const mayKeep = refusedWords(one.hunk) === "";
      const compare = mine ? [lens("Compare", "compareHunk")] : [];
      if (one.hunk.meets) {
        const take = (one.hunk.userDigest ?? null) === null ? [] : [lens("Take Gloveport’s", "takeHunk")];
        return [head, lens("Keep mine", "rejectHunk"), ...(mayKeep ? take : []), ...compare, lens("Ask to redo", "redoHunk")];
      }
      return [
        head,
        ...(mayKeep ? [lens(`$(check)${GAP}Accept`, "acceptHunk")] : []),
        lens(`$(discard)${GAP}Reject`, "rejectHunk"),
        lens(`$(arrow-down)${GAP}Next`, "nextHunk"),
        ...compare,
      ];
    });
  }

  private draw(): void {
    vscode.window.visibleTextEditors.forEach((editor) => this.drawIn(editor));
    this.lensChanged.fire();
    this.tellKeys();
  }

  private drawIn(editor: vscode.TextEditor): void {
    const placed = this.review.placesIn(editor.document);
    const mine = editor.document.uri.scheme === "file";
    const lines = (from: number, to: number, words = ""): vscode.DecorationOptions => ({
      range: new vscode.Range(from, 0, Math.max(from, to - 1), 0),
      renderOptions:
        words === "" ? {} : { after: { contentText: words, color: colour("editorCodeLens.foreground"), fontStyle: "italic", margin: "0 0 0 24px" } },
    });
    const clean = placed.filter((one) => !one.hunk.meets);
    const meets = placed.filter((one) => one.hunk.meets);
    editor.setDecorations(
      this.waits,
      mine
        ? clean
            .filter((one) => one.end > one.line)
            .flatMap((one) => [{ ...lines(one.line, one.end), ...hoverOf(one.hunk) }, lines(one.line, one.line, besideWords(one.hunk))])
        : [],
    );
    editor.setDecorations(
      this.inserts,
      mine
        ? clean
            .filter((one) => one.end === one.line)
            .map((one) => ({ ...lines(Math.max(0, one.line - 1), one.line, besideWords(one.hunk)), ...hoverOf(one.hunk) }))
        : [],
    );
    const firsts = (of: readonly Placed[]): vscode.DecorationOptions[] =>
      of.map((one) => lines(mine && one.end === one.line ? Math.max(0, one.line - 1) : one.line, one.line));
    editor.setDecorations(this.signs.hunk, firsts(clean));
    editor.setDecorations(this.signs.conflict, firsts(meets));
    editor.setDecorations(this.proposed, mine ? [] : clean.map((one) => lines(one.line, one.end)));
    editor.setDecorations(this.yours, mine ? [] : meets.map((one) => lines(one.line, one.theirs ?? one.end, "yours, in your file")));
    editor.setDecorations(
      this.conflict,
      meets.map((one) =>
        lines(mine ? one.line : (one.theirs ?? one.line), one.end, mine ? "changed by you, another change is proposed" : "Gloveport’s, not written"),
      ),
    );
  }

  private tellKeys(): void {
    const editor = vscode.window.activeTextEditor;
    const placed = editor === undefined ? [] : this.review.placesIn(editor.document);
    void vscode.commands.executeCommand("setContext", "gloveport.fileHasHunks", placed.length > 0);
    const here = this.atCaret();
    void vscode.commands.executeCommand("setContext", "gloveport.hunkAtCaret", here !== undefined);
    void vscode.commands.executeCommand("setContext", "gloveport.conflictAtCaret", (here?.hunk.userDigest ?? null) !== null);
  }

  dispose(): void {
    vscode.Disposable.from(
      ...this.parts,
      this.waits,
      this.inserts,
      this.proposed,
      this.yours,
      this.conflict,
      this.lensChanged,
      ...Object.values(this.signs),
    ).dispose();
  }
}
