/**
 * Read-only texts that open beside the panel: outputs, transcripts, proposals.
 *
 * Purpose: one provider for every text of this extension, by the address it was opened under.
 * Invariant: a text stands empty until its language is one whose servers read no addresses out of texts; only a
 * proposal has another one than none.
 * Must never: write a file, or keep a text whose document was closed.
 */

import * as vscode from "vscode";
import { confirm } from "./tell.ts";

export const SCHEME = "gloveport";
/** The group of proposals: texts of the model's that are coloured like the file they are for. */
export const PROPOSAL = "proposal";
const NO_LANGUAGE = "plaintext";
/**
 * Languages of proposals. Not here is what names the schema, style or entity that its editor's server then fetches (JSON,
 * YAML, XML, HTML, CSS, TOML and more): whoever writes such a text would say what is fetched.
 */
const LANGUAGES: ReadonlySet<string> = new Set([
  ...[NO_LANGUAGE, "c", "clojure", "cpp", "csharp", "dart", "diff", "elixir", "fsharp", "go", "haskell", "java", "javascript"],
  ...["javascriptreact", "julia", "kotlin", "lua", "makefile", "objective-c", "ocaml", "perl", "php", "powershell", "python", "r"],
  ...["ruby", "rust", "scala", "shellscript", "sql", "swift", "typescript", "typescriptreact", "vb", "zig"],
]);
const ERASED = "This held a text that was erased. Open it anew.\n";
const GONE = "This was shown by a window before this one. Open it anew.\n";

export class Documents implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly parts: vscode.Disposable[];
  /** Open under a language that they may have. */
  private readonly harmless = new Set<string>();
  private readonly closed = new vscode.EventEmitter<vscode.Uri>();
  /** A text is open no more. */
  readonly onDidClose = this.closed.event;
  /** The text under an address that a window before this one opened; undefined where nobody can make it again. */
  again: (uri: vscode.Uri) => Promise<string | undefined> = () => Promise.resolve(undefined);

  constructor() {
    this.parts = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidOpenTextDocument((document) => void this.look(document)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.forget(uri)),
    ];
  }

  /** A document was opened, or got another language: its text comes when the language is a harmless one. */
  private async look(document: vscode.TextDocument): Promise<void> {
    const { uri, languageId } = document;
    if (uri.scheme !== SCHEME) {
      return;
    }
    if (languageId === NO_LANGUAGE || (uri.authority === PROPOSAL && LANGUAGES.has(languageId))) {
      this.harmless.add(uri.toString());
      this.changed.fire(uri);
    } else {
      this.harmless.delete(uri.toString());
      await vscode.languages.setTextDocumentLanguage(document, NO_LANGUAGE); // which opens it anew
    }
  }

  private forget(uri: vscode.Uri): void {
    const key = uri.toString();
    this.harmless.delete(key);
    const isOpen = vscode.workspace.textDocuments.some((one) => one.uri.toString() === key); // it only gets another language
    if (uri.scheme === SCHEME && !isOpen) {
      this.texts.delete(key);
      this.closed.fire(uri);
    }
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const key = uri.toString();
    if (!this.harmless.has(key)) {
      return "";
    }
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
    await vscode.window.showTextDocument(await this.load(uri), { preview: true });
  }

  /** The document of a text that was put, with the text in it. */
  async load(uri: vscode.Uri): Promise<vscode.TextDocument> {
    const document = await vscode.workspace.openTextDocument(uri);
    const isThere = (): boolean => document.getText() !== "" || (this.texts.get(uri.toString()) ?? "") === "";
    if (!isThere()) {
      await new Promise<void>((resolve) => {
        const look = (one: vscode.Uri): void => {
          if (one.toString() === uri.toString() && (document.isClosed || isThere())) {
            heard.dispose();
            resolve();
          }
        };
        const heard = vscode.Disposable.from(
          vscode.workspace.onDidChangeTextDocument((change) => look(change.document.uri)),
          this.onDidClose(look),
        );
      });
    }
    return document;
  }

  dispose(): void {
    vscode.Disposable.from(...this.parts).dispose();
    this.changed.dispose();
    this.closed.dispose();
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
