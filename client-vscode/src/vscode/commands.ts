/**
 * Commands, and what the panel's buttons do.
 *
 * Purpose: one place where a name becomes an action; every button of the panel is a command too.
 * Invariant: a failure is shown in words and kept in the log.
 * Must never: run what a text of data names.
 */

import * as vscode from "vscode";
import type { SessionInfo, ViewItem } from "../../../protocol/typescript/wire.ts";
import { SEARCH_FROM } from "../common/found.ts";
import { keepTogether, leftWords } from "../common/keeping.ts";
import type { Shown } from "../common/keeping.ts";
import type { FoundRow } from "../common/panel.ts";
import { labelText } from "../common/plain.ts";
import { str } from "../common/toolRow.ts";
import { phaseWords } from "../common/words.ts";
import { NoSession } from "./actions.ts";
import type { Actions } from "./actions.ts";
import type { Answers } from "./answers.ts";
import type { Daemon } from "./daemon.ts";
import { SCHEME, openLink } from "./documents.ts";
import type { Documents } from "./documents.ts";
import type { HunkCommands } from "./hunkCommands.ts";
import type { OwnRules } from "./ownRules.ts";
import type { PanelDoors, PanelView } from "./panelView.ts";
import type { Pickers } from "./pickers.ts";
import type { Records } from "./records.ts";
import type { Reports } from "./reports.ts";
import type { Review } from "./review.ts";
import type { Sessions } from "../common/sessions.ts";
import { tellError, tellInformation, warn } from "./tell.ts";
import type { GrantNode, RuleNode, SandboxNode, SessionNode, SnapshotNode } from "./trees.ts";

export interface Rooms {
  readonly log: vscode.LogOutputChannel;
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  readonly actions: Actions;
  readonly answers: Answers;
  readonly documents: Documents;
  readonly pickers: Pickers;
  readonly records: Records;
  readonly rules: OwnRules;
  readonly review: Review;
  readonly reports: Reports;
}

interface SearchItem extends vscode.QuickPickItem {
  readonly id: string;
  /** The message that is meant; empty: the session. */
  readonly itemId: string;
}

type Run = (...args: readonly never[]) => unknown;

export class Commands {
  panel: PanelView | null = null;
  hunks: HunkCommands | null = null;

  constructor(private readonly rooms: Rooms) {}

  /** A command whose failure is shown in words and kept in the log. */
  private command(name: string, run: Run): vscode.Disposable {
    return vscode.commands.registerCommand(`gloveport.${name}`, async (...args: readonly unknown[]) => {
      try {
        await run(...(args as readonly never[]));
        if (!LOOKS.has(name)) {
          this.panel?.done();
        }
      } catch (error) {
        const words = error instanceof Error ? error.message : String(error);
        this.rooms.log.error(words);
        if (error instanceof NoSession) {
          void warn(`Gloveport: ${words}`, NEW).then((pressed) => pressed === NEW && vscode.commands.executeCommand("gloveport.startSession"));
          return;
        }
        tellError(`Gloveport: ${words}`);
      }
    });
  }

  register(): readonly vscode.Disposable[] {
    return [
      ...this.sessionCommands(),
      ...this.approvalCommands(),
      ...this.recordCommands(),
      ...this.ruleCommands(),
      ...this.answerCommands(),
      ...this.changeCommands(),
      ...this.choiceCommands(),
    ];
  }

  private sessionCommands(): readonly vscode.Disposable[] {
    const { log, sessions, actions, daemon } = this.rooms;
    const idOf = (node?: SessionNode): string => node?.session.sessionId ?? actions.currentOrFail.id;
    return [
      this.command("startSession", () => this.newSession()),
      this.command("openSession", (session?: SessionInfo) => session !== undefined && this.openSession(session.sessionId)),
      this.command("searchSessions", () => this.searchSessions()),
      this.command("renameSession", (node?: SessionNode) => actions.rename(idOf(node))),
      this.command("deleteSession", (node?: SessionNode) => actions.remove(idOf(node))),
      this.command("cancelTurn", () => actions.cancel()),
      this.command("refreshSessions", () => sessions.refresh()),
      this.command("openSettings", () => openSettings()),
      this.command("reconnect", () => daemon.link.retry()),
      this.command("showOutput", () => {
        log.info(`painted: ${this.panel?.delayWords ?? "nothing"}`);
        log.show();
      }),
      this.command("focusComposer", () => this.panel?.focus("composer")),
      this.command("openTranscript", () => this.rooms.answers.transcript()),
    ];
  }

  private approvalCommands(): readonly vscode.Disposable[] {
    const { actions } = this.rooms;
    return [
      this.command("goToApproval", () => this.goToApproval()),
      this.command("denyWaiting", () => this.denyWaiting()),
      this.command("revokeGrant", (node?: GrantNode) => node !== undefined && actions.revoke(node.sessionId, node.grantId)),
    ];
  }

  private recordCommands(): readonly vscode.Disposable[] {
    const { records, actions } = this.rooms;
    const idOf = (node?: SessionNode): string => node?.session.sessionId ?? actions.currentOrFail.id;
    return [
      this.command("settleCall", () => this.tellOf(records.askAndSettle())),
      this.command("thawSession", (node?: SessionNode) => records.thaw(idOf(node))),
      this.command("eraseText", async (node?: Partial<SessionNode>) =>
        records.erase(node?.session?.sessionId ?? actions.currentOrFail.id, node?.session === undefined ? await this.selected() : ""),
      ),
    ];
  }

  private answerCommands(): readonly vscode.Disposable[] {
    const { answers } = this.rooms;
    return [
      this.command("showDaemon", () => answers.status()),
      this.command("restartDaemon", () => answers.restart()),
      this.command("showMeasures", () => answers.measures()),
      this.command("explainCommand", () => answers.explain()),
    ];
  }

  private ruleCommands(): readonly vscode.Disposable[] {
    const { rules, actions } = this.rooms;
    return [
      this.command("addRule", () => rules.add()),
      this.command("removeRule", (node?: RuleNode) => node !== undefined && rules.remove(node.sessionId, node.ruleId)),
      this.command("editRules", (node?: Partial<SessionNode>) => rules.edit(node?.session?.sessionId ?? actions.currentOrFail.id)),
    ];
  }

  /** Words that are selected in a text of a session, or in the panel; empty where there are none. */
  private async selected(): Promise<string> {
    const editor = vscode.window.activeTextEditor;
    const shown = editor?.document.uri.scheme === SCHEME ? editor.document.getText(editor.selection) : "";
    return shown === "" ? ((await this.panel?.selection()) ?? "") : shown;
  }

  private changeCommands(): readonly vscode.Disposable[] {
    const { actions } = this.rooms;
    return [
      this.command("acceptHunk", (hunk?: unknown) => this.hunks?.decideHunk("accept", hunk)),
      this.command("rejectHunk", (hunk?: unknown) => this.hunks?.decideHunk("reject", hunk)),
      this.command("takeHunk", (hunk?: unknown) => this.hunks?.takeHunk(hunk)),
      this.command("acceptFile", () => this.hunks?.decideFile("accept")),
      this.command("rejectFile", () => this.hunks?.decideFile("reject")),
      this.command("nextHunk", () => this.hunks?.go(1)),
      this.command("previousHunk", () => this.hunks?.go(-1)),
      this.command("compareHunk", (hunk?: unknown) => this.hunks?.compare(hunk)),
      this.command("redoHunk", (hunk?: unknown) => this.hunks?.askToRedo(hunk)),
      this.command("keepAll", () => this.decideFiles("keepAll", this.pending())),
      this.command("undoAll", () => this.decideFiles("undo", this.pending())),
      this.command("review", () => this.decideFiles("review", this.pending())),
      this.command("redoLast", async () => this.panel?.tell(`Done again: ${(await actions.redoLast()).join(", ")}`, false)),
      this.command("previewSnapshot", (node?: SnapshotNode) => node !== undefined && this.previewSnapshot(node)),
      this.command("restoreSnapshot", (node?: SnapshotNode) => node !== undefined && actions.restoreSnapshot(node.sessionId, node.point)),
      this.command("undoLast", async () => this.panel?.tell(`Put back: ${(await actions.undoLast()).join(", ")}`, false)),
    ];
  }

  private choiceCommands(): readonly vscode.Disposable[] {
    const { pickers, reports, actions } = this.rooms;
    return [
      this.command("chooseModel", () => pickers.chooseModel()),
      this.command("chooseSandbox", () => pickers.chooseSandbox()),
      this.command("chooseMode", () => pickers.chooseMode()),
      this.command("setBudget", () => pickers.setBudget()),
      this.command("addBudget", () => this.addBudget()),
      this.command("chooseTrust", () => actions.chooseTrust()),
      this.command("setKey", () => pickers.setKey()),
      this.command("openConfig", () => pickers.openConfig()),
      this.command("showUsage", () => pickers.showUsage()),
      this.command("attachFile", () => this.attachFile()),
      this.command("attachSelection", () => this.panel?.attach(pickers.selection())),
      this.command("showTrace", () => reports.trace(null)),
      this.command("runDoctor", (node?: SandboxNode) => reports.doctor(node?.sandbox ?? null)),
      this.command("verifyAudit", () => reports.verifyAudit()),
      this.command("openWalkthrough", () => vscode.commands.executeCommand("workbench.action.openWalkthrough", "gloveport.gloveport#begin", false)),
    ];
  }

  readonly doors: PanelDoors = {
    verbs: {
      retry: () => this.rooms.daemon.link.retry(),
      showOutput: () => this.rooms.log.show(),
      openSettings: () => openSettings(),
      openFolder: () => vscode.commands.executeCommand("workbench.action.files.openFolder"),
      manageTrust: () => vscode.commands.executeCommand("workbench.trust.manage"),
      startSession: () => this.newSession(),
      chooseModel: () => this.rooms.pickers.chooseModel(),
      chooseSandbox: () => this.rooms.pickers.chooseSandbox(),
      chooseMode: () => this.rooms.pickers.chooseMode(),
      setBudget: () => this.rooms.pickers.setBudget(),
      addBudget: () => this.addBudget(),
      chooseTrust: () => this.rooms.actions.chooseTrust(),
      renameSession: () => this.rooms.actions.rename(this.rooms.actions.currentOrFail.id),
      thawSession: () => this.rooms.records.thaw(this.rooms.actions.currentOrFail.id),
      openTrace: () => this.rooms.reports.trace(null),
      openDoctor: () => this.rooms.reports.doctor(null),
      openTests: () => vscode.commands.executeCommand("workbench.view.testing.focus"),
      showUsage: () => this.rooms.pickers.showUsage(),
      setKey: () => this.rooms.pickers.setKey(),
      openConfig: () => this.rooms.pickers.openConfig(),
      attachFile: () => this.attachFile(),
      cancel: () => this.rooms.actions.cancel(),
    },
    files: (action, shown) => this.decideFiles(action, shown),
    openOutput: (item) => this.openOutput(item),
    openLink: (target) => openLink(target),
    trace: (turnId) => this.rooms.reports.trace(turnId),
    settle: (callId, said) => this.tellOf(this.rooms.records.settle(callId, said)),
  };

  /** Show in the panel what came of it; nothing where the user turned back. */
  private async tellOf(done: Promise<string | null>): Promise<void> {
    const words = await done;
    if (words !== null) {
      this.panel?.tell(words, false);
    }
  }

  /** Show the panel with no session: the first message begins one. */
  private async newSession(): Promise<void> {
    this.rooms.actions.checkTrusted();
    await this.rooms.sessions.show(null);
    await this.panel?.focus("composer");
  }

  /** Make room below the limit that was reached; the words to go on with are the user's. */
  private async addBudget(): Promise<void> {
    await this.rooms.pickers.addBudget();
    await this.panel?.focus("composer");
  }

  private async openSession(sessionId: string): Promise<void> {
    await this.rooms.sessions.show(sessionId);
    await this.panel?.focus("composer");
  }

  /** One list for titles and for what was said: the words of messages are asked for while they are typed. */
  private async searchSessions(): Promise<void> {
    const { sessions, actions, log } = this.rooms;
    await sessions.refresh();
    const titles = sessions.list.map((one): SearchItem => ({
      label: labelText(one.title),
      description: phaseWords(one.phase).toLowerCase(),
      detail: labelText(one.root),
      id: one.sessionId,
      itemId: "",
    }));
    const picker = vscode.window.createQuickPick<SearchItem>();
    Object.assign(picker, { title: "Sessions", placeholder: "Part of a title, a folder or a message", matchOnDetail: true, items: titles });
    const search = (typed: string): void => {
      const text = typed.trim();
      picker.items = titles;
      if (text.length >= SEARCH_FROM) {
        picker.busy = true;
        actions.search(text).then(
          ({ rows }) => {
            if (picker.value.trim() === text) {
              picker.busy = false;
              picker.items = [...titles, ...rows.map(foundItem)];
            }
          },
          (error: unknown) => log.error(String(error)),
        );
      }
    };
    const picked = await new Promise<SearchItem | undefined>((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      picker.onDidChangeValue((typed) => {
        clearTimeout(timer);
        timer = setTimeout(() => search(typed), SEARCH_AFTER_MS);
      });
      picker.onDidAccept(() => resolve(picker.selectedItems[0]));
      picker.onDidHide(() => resolve(undefined));
      picker.show();
    });
    picker.dispose();
    if (picked !== undefined) {
      await this.panel?.openSession(picked.id, picked.itemId === "" ? undefined : picked.itemId);
      await this.panel?.focus("composer");
    }
  }

  private async goToApproval(): Promise<void> {
    const [first] = this.rooms.actions.waiting();
    if (first === undefined) {
      throw new Error("Nothing waits for an answer.");
    }
    if (this.rooms.sessions.current?.id !== first.session.id) {
      await this.rooms.sessions.show(first.session.id);
    }
    await this.panel?.focus("approval");
  }

  private async denyWaiting(): Promise<void> {
    const [first] = this.rooms.actions.waiting();
    if (first === undefined) {
      throw new Error("Nothing waits for an answer.");
    }
    const { session, approvalId, cardDigest } = first;
    await this.rooms.actions.answer(session.id, { approvalId, cardDigest, allow: false, option: 0, uses: null, lifetimeS: null });
  }

  private pending(): readonly Shown[] {
    return this.rooms.actions.currentOrFail.beside.changes;
  }

  private readonly decideFiles: PanelDoors["files"] = async (action, shown) => {
    const { actions, review } = this.rooms;
    const session = actions.currentOrFail;
    const pending = new Map(session.beside.changes.map((one) => [one.changeId, one]));
    const changes = shown.flatMap(({ changeId, digest }) => {
      const change = pending.get(changeId);
      return change === undefined ? [] : [{ ...change, digest }]; // as it was shown, whatever it is by now
    });
    const root = session.beside.detail?.info.root ?? "";
    const [first] = changes;
    if (first === undefined) {
      throw new Error("Nothing is proposed.");
    }
    if (action === "keepAll") {
      this.tellLeft(leftWords(await keepTogether(changes, (group) => actions.decide(session.id, "accept", group))));
      return;
    }
    if (action !== "review") {
      await actions.decide(session.id, action === "keep" ? "accept" : "reject", changes);
      return;
    }
    const files = changes.map((one) => vscode.Uri.file(`${root}/${one.path}`).fsPath);
    await (files.length === 1
      ? review.compare(files[0] ?? "", session.id)
      : review.compareAll(session.id, files, `Proposed in ${this.rooms.sessions.title(session.id) || "this session"}`));
  };

  /** Where the user looks: in the panel, else in the window. */
  private tellLeft(words: string): void {
    if (words !== "") {
      if (this.panel?.visible === true) {
        this.panel.tell(words, false);
      } else {
        tellInformation(words);
      }
    }
  }

  private async attachFile(): Promise<void> {
    const attachment = await this.rooms.pickers.pickAttachment();
    if (attachment !== null) {
      await this.panel?.attach(attachment);
    }
  }

  private async openOutput(item: ViewItem): Promise<void> {
    const { documents } = this.rooms;
    const text = str(item.fields, "output") || str(item.fields, "result");
    const name = fileName(str(item.fields, "title"), "output");
    await documents.open(documents.uri("output", `${item.id.slice(item.id.indexOf("/") + 1)}/${name}`), text);
  }

  private async previewSnapshot({ sessionId, point, title }: SnapshotNode): Promise<void> {
    const { documents, actions } = this.rooms;
    const uri = documents.uri("snapshot", `${sessionId}/${point}/${fileName(title, "point")}.diff`);
    await documents.open(uri, await actions.previewSnapshot(sessionId, point));
  }
}

/** Commands that lead to why something failed. */
const LOOKS: ReadonlySet<string> = new Set(["showOutput", "openSettings", "openConfig"]);
const NEW = "New Session";
const SEARCH_AFTER_MS = 200;
const NAME_CHARS_MAX = 60;

/** A tab's name out of words of data. */
function fileName(words: string, otherwise: string): string {
  return (
    words
      .replace(/[^\w.-]+/g, " ")
      .trim()
      .slice(0, NAME_CHARS_MAX) || otherwise
  );
}

/** A message that was found, as a row that the list's own filter leaves alone. */
function foundItem({ session, itemId, who, words }: FoundRow): SearchItem {
  return {
    label: `$(comment) ${labelText(session.title)}`,
    description: who === "you" ? "you said" : "it said",
    detail: labelText(words),
    id: session.id,
    itemId,
    alwaysShow: true,
  };
}

/** Settings of a machine stand on a page of their own where the extension runs on another machine than the window. */
async function openSettings(): Promise<void> {
  const page = vscode.env.remoteName === undefined ? "openSettings" : "openRemoteSettings";
  await vscode.commands.executeCommand(`workbench.action.${page}`, { query: "@ext:gloveport.gloveport" });
}
