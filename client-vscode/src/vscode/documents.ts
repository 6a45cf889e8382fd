/**
 * Read-only texts that open beside the panel: outputs, transcripts, proposals.
 *
 * Purpose: one provider for every text of this extension, by the address it was opened under.
 * Invariant: a text of data has no language, so nothing in it is looked up or run.
 * Must never: write a file, or keep a text whose document was closed.
 */

import * as vscode from "vscode";
import { confirm } from "./tell.ts";

export const SCHEME = "gloveport";
const ERASED = "This held a text that was erased. Open it anew.\n";
const GONE = "This was shown by a window before this one. Open it anew.\n";

export class Documents implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly parts: vscode.Disposable[];
  /** The text under an address that a window before this one opened; undefined where nobody can make it again. */
  again: (uri: vscode.Uri) => Promise<string | undefined> = () => Promise.resolve(undefined);

  constructor() {
    this.parts = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        if (uri.scheme === SCHEME) {
          this.texts.delete(uri.toString());
        }
      }),
    ];
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const key = uri.toString();
    const made = this.texts.has(key) ? undefined : await this.again(uri);
    return this.texts.get(key) ?? made ?? GONE;
  }

  /** The address of a text; `group` and `query` keep texts of one path apart. */
  uri(group: string, path: string, query = ""): vscode.Uri {
    return vscode.Uri.from({ scheme: SCHEME, authority: group, path: path.startsWith("/") ? path : `/${path}`, query });
  }

  put(uri: vscode.Uri, text: string): void {
    const key = uri.toString();
    if (this.texts.get(key) !== text) {
      this.texts.set(key, text);
      this.changed.fire(uri);
    }
  }

  /** Keep no text that holds these words: they were erased where it came from. */
  erase(words: string): void {
    for (const [key, text] of this.texts) {
      if (text.includes(words)) {
        this.put(vscode.Uri.parse(key, true), ERASED);
      }
    }
  }

  async open(uri: vscode.Uri, text: string): Promise<void> {
    this.put(uri, text);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.languages.setTextDocumentLanguage(document, "plaintext");
    await vscode.window.showTextDocument(document, { preview: true });
  }

  dispose(): void {
    vscode.Disposable.from(...this.parts).dispose();
    this.changed.dispose();
  }
}

const OPENED = new Set(["https:", "http:", "mailto:"]);

/** Open a link out of a model's text: only after its whole target was shown and confirmed. */
export async function openLink(target: string): Promise<void> {
  let parsed: URL;
  try {
    parsed = new URL(target);
  } catch {
    throw new Error(`This link leads nowhere outside: ${target.slice(0, 200)}`);
  }
  if (!OPENED.has(parsed.protocol)) {
    throw new Error(`Links of this kind are not opened: ${parsed.protocol}`);
  }
  const detail = `${parsed.href}\n\nA model wrote this link. What stands behind the address goes to ${parsed.host || parsed.pathname}.`;
  if ((await confirm("Open this link outside?", detail, "Open")) === "Open") {
    await vscode.env.openExternal(vscode.Uri.parse(parsed.href, true));
  }
}
