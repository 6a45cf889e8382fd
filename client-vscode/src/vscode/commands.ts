/**
 * Commands, and what the panel's buttons do.
 *
 * Purpose: one place where a name becomes an action; every button of the panel is a command too.
 * Invariant: a failure is shown in words and kept in the log.
 * Must never: run what a text of data names.
 */

import * as vscode from "vscode";
import type { SessionInfo, ViewItem } from "../../../protocol/typescript/wire.ts";
import { renderTranscript } from "../common/transcript.ts";
import { str } from "../common/toolRow.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";
import { openLink } from "./documents.ts";
import type { Documents } from "./documents.ts";
import type { PanelDoors, PanelView } from "./panelView.ts";
import type { Sessions } from "./sessions.ts";

export interface Rooms {
  readonly log: vscode.LogOutputChannel;
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  readonly actions: Actions;
  readonly documents: Documents;
}

type Run = (...args: readonly never[]) => unknown;

export class Commands {
  private readonly rooms: Rooms;
  panel: PanelView | null = null;

  constructor(rooms: Rooms) {
    this.rooms = rooms;
  }

  /** A command whose failure is shown in words and kept in the log. */
  private command(name: string, run: Run): vscode.Disposable {
    return vscode.commands.registerCommand(`gloveport.${name}`, async (...args: readonly unknown[]) => {
      try {
        await run(...(args as readonly never[]));
      } catch (error) {
        const words = error instanceof Error ? error.message : String(error);
        this.rooms.log.error(words);
        void vscode.window.showErrorMessage(`Gloveport: ${words}`);
      }
    });
  }

  register(): readonly vscode.Disposable[] {
    const { log, sessions, actions } = this.rooms;
    return [
      this.command("startSession", () => this.newSession()),
      this.command("openSession", (session?: SessionInfo) => session !== undefined && this.openSession(session.sessionId)),
      this.command("cancelTurn", () => actions.cancel()),
      this.command("refreshSessions", () => sessions.refresh()),
      this.command("showOutput", () => log.show()),
      this.command("focusComposer", () => this.panel?.focus("composer")),
      this.command("openTranscript", () => this.openTranscript()),
    ];
  }

  readonly doors: PanelDoors = {
    verbs: {
      retry: () => this.rooms.daemon.retry(),
      showOutput: () => this.rooms.log.show(),
      openSettings: () => vscode.commands.executeCommand("workbench.action.openSettings", "gloveport"),
      openFolder: () => vscode.commands.executeCommand("workbench.action.files.openFolder"),
      manageTrust: () => vscode.commands.executeCommand("workbench.trust.manage"),
      startSession: () => this.newSession(),
      chooseModel: () => undefined,
      chooseSandbox: () => undefined,
      chooseTrust: () => this.rooms.actions.chooseTrust(),
      renameSession: () => this.rooms.actions.rename(this.rooms.actions.currentOrFail.id),
      openTrace: () => undefined,
      openDoctor: () => undefined,
      openTests: () => vscode.commands.executeCommand("workbench.view.testing.focus"),
      showUsage: () => undefined,
      attachFile: () => undefined,
      cancel: () => this.rooms.actions.cancel(),
    },
    files: (action, changeIds) => this.decideFiles(action, changeIds),
    openOutput: (item) => this.openOutput(item),
    openLink: (target) => openLink(target),
    trace: () => Promise.resolve(),
    painted: () => undefined,
  };

  /** Show the panel with no session: the first message begins one. */
  private async newSession(): Promise<void> {
    this.rooms.actions.checkTrusted();
    await this.rooms.sessions.show(null);
    await this.panel?.focus("composer");
  }

  private async openSession(sessionId: string): Promise<void> {
    await this.rooms.sessions.show(sessionId);
    await this.panel?.focus("composer");
  }

  private async decideFiles(action: "keep" | "undo" | "review", changeIds: readonly string[]): Promise<void> {
    const session = this.rooms.actions.currentOrFail;
    const changes = session.beside.changes.filter((one) => changeIds.includes(one.changeId));
    if (action !== "review" && changes.length > 0) {
      await this.rooms.actions.decide(session.id, action === "keep" ? "accept" : "reject", changes);
    }
  }

  private async openOutput(item: ViewItem): Promise<void> {
    const { documents } = this.rooms;
    const text = str(item.fields, "output") || str(item.fields, "result");
    const name =
      str(item.fields, "title")
        .replace(/[^\w.-]+/g, " ")
        .trim()
        .slice(0, 60) || "output";
    await documents.open(documents.uri("output", `${item.id.slice(item.id.indexOf("/") + 1)}/${name}`), text);
  }

  private async openTranscript(): Promise<void> {
    const { documents, actions } = this.rooms;
    const { id, view } = actions.currentOrFail;
    await documents.open(documents.uri("transcript", `${id}.txt`), renderTranscript(view?.items() ?? [], view?.first ?? 0));
  }
}
