/**
 * The chat panel's webview, from the extension's side.
 *
 * Purpose: give the panel its page, its pictures and its events, and do what its buttons ask.
 * Invariant: a panel that says `ready` gets everything anew; it may load its own script and style and nothing else.
 * Must never: run a command whose name came out of the panel.
 */

import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import type { Shown } from "../common/keeping.ts";
import type { Answer, Attachment, FromPanel, PanelVerb, ToPanel } from "../common/panel.ts";
import type { Said } from "../common/said.ts";
import { grouped } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import type { Followed } from "../common/followed.ts";
import { page } from "./page.ts";
import { panelState } from "./picture.ts";
import type { Pictured } from "./picture.ts";
import type { Sessions } from "../common/sessions.ts";

export const VIEW_ID = "gloveport.chat";
const STATE_AFTER_MS = 40;
const DELAYS_KEPT = 500;
/** A page that does not say what is selected in it has nothing selected. */
const SELECTION_WITHIN_MS = 1_000;

/** What does something, so that a failure before it is old; the words that are sent have an answer of their own. */
const DOING: ReadonlySet<FromPanel["type"]> = new Set(["answer", "answerAll", "files", "unqueue", "steerQueued", "settle", "openSession"]);
/** Buttons that lead to why something failed. */
const LOOKING: ReadonlySet<PanelVerb> = new Set(["showOutput", "openSettings", "openConfig"]);

type OwnWord = "ready" | "older" | "broken" | "painted" | "selection" | "cardFocus";

/** What the panel's buttons do beyond sending words. */
export interface PanelDoors {
  readonly verbs: Readonly<Record<Extract<FromPanel, { readonly type: "verb" }>["verb"], () => unknown>>;
  files(action: Extract<FromPanel, { readonly type: "files" }>["action"], shown: readonly Shown[]): Promise<void>;
  openOutput(item: ViewItem): Promise<void>;
  openLink(target: string): Promise<void>;
  trace(turnId: string): Promise<void>;
  settle(callId: string, said: Said): Promise<void>;
}

export class PanelView implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | null = null;
  private ready = false;
  /** Who waits for what is selected in the page. */
  private asking: ((words: string) => void) | null = null;
  private timer: NodeJS.Timeout | null = null;
  private waiting: ToPanel[] = [];
  private listening: Disposable[] = [];
  /** When events were written, by seq, until they are painted. */
  private readonly sentAt = new Map<number, number>();
  private delays: readonly number[] = [];
  private readonly parts: Disposable[];
  private readonly media: vscode.Uri;
  private readonly dist: vscode.Uri;

  constructor(
    private readonly extension: vscode.Uri,
    private readonly pictured: Pictured,
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly log: vscode.LogOutputChannel,
    private readonly doors: PanelDoors,
  ) {
    this.media = vscode.Uri.joinPath(extension, "media");
    this.dist = vscode.Uri.joinPath(extension, "dist");
    this.parts = [
      sessions.onSwitch((session) => this.follow(session)),
      sessions.onList(() => this.refresh()),
      actions.onAnswering((itemId) => this.post({ type: "answering", itemId })),
      sessions.onChange(() => this.refresh()),
      pictured.daemon.link.onState(() => this.refresh()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.refresh()),
      vscode.workspace.onDidChangeWorkspaceFolders(() => {
        log.info(`folders: ${sessions.roots.length}`);
        this.refresh();
      }),
      vscode.window.onDidChangeWindowState(() => this.refresh()),
    ];
  }

  get visible(): boolean {
    return this.view?.visible === true;
  }

  /** Show a number on the view's icon; 0 shows none. */
  badge(waiting: number): void {
    if (this.view !== null) {
      this.view.badge = waiting === 0 ? undefined : { value: waiting, tooltip: waiting === 1 ? "1 approval waits" : `${waiting} approvals wait` };
    }
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    view.webview.options = { enableScripts: true, localResourceRoots: [this.media, this.dist] };
    view.webview.onDidReceiveMessage((message: FromPanel) => void this.take(message));
    view.onDidDispose(() => {
      if (this.view === view) {
        this.view = null; // else a newer one stands in its place already
        this.ready = false;
      }
    });
    view.onDidChangeVisibility(() => {
      if (view.visible) {
        const hello: ToPanel = { type: "hello" };
        void view.webview.postMessage(hello); // a page that was not thrown away after all
        this.refresh();
      } else {
        this.ready = false; // its page is thrown away, and says so when it is there again
      }
    });
    view.webview.html = page(view.webview, this.extension, "panel");
    this.sessions.refresh().catch((error: unknown) => this.log.warn(String(error)));
  }

  /** Tell the panel something; kept until it is ready. */
  post(message: ToPanel): void {
    if (this.ready && this.view !== null) {
      void this.view.webview.postMessage(message);
    } else if (["focus", "attach", "draft", "reveal"].includes(message.type)) {
      this.waiting.push(message);
    }
  }

  /** Something that was asked for was done. */
  done(): void {
    this.post({ type: "done" });
  }

  tell(words: string, bad: boolean): void {
    this.post({ type: "told", words, bad });
  }

  /** Open the panel and put the cursor where it is wanted. */
  async focus(what: "composer" | "approval"): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW_ID}.focus`);
    this.post({ type: "focus", what });
  }

  async attach(attachment: Attachment): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW_ID}.focus`);
    this.post({ type: "attach", attachment });
  }

  /** What is selected in the panel; empty where it is hidden, or does not say. */
  selection(): Promise<string> {
    this.asking?.("");
    if (!this.ready || !this.visible) {
      return Promise.resolve("");
    }
    return new Promise((resolve) => {
      this.asking = resolve;
      setTimeout(() => resolve(""), SELECTION_WITHIN_MS);
      this.post({ type: "selection" });
    });
  }

  /** Put words into the composer for the user to send. */
  async draft(words: string): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW_ID}.focus`);
    this.post({ type: "draft", words });
  }

  /** Show a session, at an item of it where one is meant. */
  async openSession(sessionId: string, itemId: string | undefined): Promise<void> {
    await this.sessions.show(sessionId);
    const { current } = this.sessions;
    if (itemId === undefined || current?.id !== sessionId) {
      return;
    }
    if (await current.hold(itemId)) {
      this.post({ type: "reveal", sessionId, itemId });
    } else {
      this.tell("This message is not in the session any more, or not loaded yet.", false);
    }
  }

  /** Send the picture around the conversation, a few times a second at most. */
  refresh(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.post({ type: "state", state: panelState(this.pictured) });
    }, STATE_AFTER_MS);
  }

  private follow(session: Followed | null): void {
    vscode.Disposable.from(...this.listening).dispose();
    this.listening = [];
    if (session === null) {
      this.post({ type: "clear" });
      this.refresh();
      return;
    }
    const sessionId = session.id;
    session.wantTimes();
    this.listening = [
      session.onLoad(() => this.load(session)),
      session.onEvents((events) => {
        const last = events.at(-1);
        if (last !== undefined) {
          this.sentAt.set(last.seq, last.at);
        }
        this.post({ type: "events", sessionId, events: events.map(({ seq, ops, at }) => ({ seq, ops, at })) });
      }),
      session.onOlder(({ items, first }) => this.post({ type: "older", sessionId, items, first })),
      session.onBackInSync((seq) => this.post({ type: "whisper", sessionId, words: `Reconnected, in sync at #${grouped(seq)}` })),
    ];
    this.load(session);
  }

  private load(session: Followed): void {
    const { view } = session;
    if (view !== null) {
      this.post({ type: "load", sessionId: session.id, items: view.items(), first: view.first, seq: view.watermark });
    }
    this.refresh();
  }

  private async loadOlder(): Promise<void> {
    const { current } = this.sessions;
    try {
      await current?.loadOlder();
    } finally {
      if (current !== null) {
        this.post({ type: "olderDone", sessionId: current.id }); // also when there were none, or it failed: it may ask again
      }
    }
  }

  private begin(): void {
    this.ready = true;
    this.post({ type: "state", state: panelState(this.pictured) });
    this.follow(this.sessions.current);
    const waiting = this.waiting;
    this.waiting = [];
    waiting.forEach((message) => this.post(message));
  }

  private async take(message: FromPanel): Promise<void> {
    try {
      await this.run(message);
      if (DOING.has(message.type) || (message.type === "verb" && !LOOKING.has(message.verb))) {
        this.done();
      }
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this.log.error(words);
      if (!this.pictured.daemon.state.words.startsWith(words)) {
        this.tell(words, true); // else it stands in the panel already
      }
    }
  }

  private async run(message: FromPanel): Promise<void> {
    switch (message.type) {
      case "send":
        await this.send(message);
        break;
      case "unqueue":
        await this.actions.unqueue(message.messageId);
        break;
      case "edit":
        await this.taken(message.text, () => this.actions.editQueued(message.messageId, message.text));
        break;
      case "steerQueued":
        await this.actions.steerQueued(message.messageId);
        break;
      case "answer":
        await this.actions.answer(this.actions.currentOrFail.id, message.answer);
        break;
      case "answerAll":
        await this.answerAll(message.answers);
        break;
      case "files":
        await this.doors.files(message.action, message.files);
        break;
      case "openFile":
        await this.actions.openFile(message.path, message.line);
        break;
      case "openSession":
        await this.openSession(message.sessionId, message.itemId);
        break;
      case "search":
        this.post({ type: "found", found: await this.actions.search(message.text) });
        break;
      case "openOutput":
        await this.openOutput(message.itemId);
        break;
      case "openLink":
        await this.doors.openLink(message.target);
        break;
      case "copy":
        await vscode.env.clipboard.writeText(message.text);
        break;
      case "why":
        await this.actions.why(message.callId);
        break;
      case "settle":
        await this.doors.settle(message.callId, message.said);
        break;
      case "trace":
        await this.doors.trace(message.turnId);
        break;
      case "verb":
        await this.doors.verbs[message.verb]();
        break;
      default:
        await this.runOwn(message);
    }
  }

  /** What the page says of itself. */
  private async runOwn(message: Extract<FromPanel, { readonly type: OwnWord }>): Promise<void> {
    switch (message.type) {
      case "ready":
        this.begin();
        break;
      case "older":
        await this.loadOlder();
        break;
      case "broken":
        this.log.warn(`the panel begins anew: ${message.words}`);
        this.follow(this.sessions.current);
        break;
      case "selection":
        this.asking?.(message.text);
        break;
      case "cardFocus":
        await vscode.commands.executeCommand("setContext", "gloveport.cardFocus", message.focused);
        break;
      case "painted":
        this.painted(message.seq, message.at);
        break;
    }
  }

  /** Keep how long an event took from the journal to the screen. */
  private painted(seq: number, at: number): void {
    const since = this.sentAt.get(seq);
    if (since !== undefined) {
      this.delays = [...this.delays.slice(-DELAYS_KEPT), at - since / 1000];
      this.sentAt.clear();
    }
  }

  /** How long events took from the journal to the screen, in words. */
  get delayWords(): string {
    const sorted = [...this.delays].sort((a, b) => a - b);
    const part = (share: number): string => `${(sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0)} ms`;
    return `p50 ${part(0.5)}, p95 ${part(0.95)} of ${sorted.length}`;
  }

  private send({ verb, text, kind, attachments }: Extract<FromPanel, { readonly type: "send" }>): Promise<void> {
    return this.taken(text, () => this.actions.send(verb, text, kind, attachments));
  }

  /** Tell the panel whether its words were taken; words that were not stay there. */
  private async taken(text: string, run: () => Promise<boolean>): Promise<void> {
    let ok = false;
    try {
      ok = await run();
    } finally {
      this.post({ type: "sent", ok, text });
    }
  }

  /** Each card by its own digest; what fails ends it, and what was not answered waits on. */
  private async answerAll(answers: readonly Answer[]): Promise<void> {
    const { id } = this.actions.currentOrFail;
    for (const answer of answers) {
      await this.actions.answer(id, answer);
    }
  }

  private async openOutput(itemId: string): Promise<void> {
    const item = this.sessions.current?.view?.find(itemId);
    if (item !== undefined) {
      await this.doors.openOutput(item);
    }
  }

  dispose(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    vscode.Disposable.from(...this.parts, ...this.listening).dispose();
  }
}
