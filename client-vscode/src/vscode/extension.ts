/**
 * The extension's composition root.
 *
 * Purpose: commands and views, wired to one connection.
 * Invariant: `activate` never rejects: what is missing is told where it is wanted; a restricted workspace can look, not
 * start or decide.
 * Must never: collect or send telemetry.
 */

import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { DaemonTold } from "../../../protocol/typescript/wire.ts";
import { Fresh } from "../common/fresh.ts";
import { Sessions } from "../common/sessions.ts";
import type { Remembered } from "../common/sessions.ts";
import { sha256 } from "../node/digest.ts";
import { Actions } from "./actions.ts";
import { Answers } from "./answers.ts";
import { Buffers } from "./buffers.ts";
import { Commands } from "./commands.ts";
import { Daemon, later } from "./daemon.ts";
import { Documents } from "./documents.ts";
import { HunkCommands } from "./hunkCommands.ts";
import { HunkMarks } from "./hunkMarks.ts";
import { Notifier } from "./notify.ts";
import { OwnRules } from "./ownRules.ts";
import { PanelView, VIEW_ID } from "./panelView.ts";
import { Pickers, keptKeys } from "./pickers.ts";
import type { Pictured } from "./picture.ts";
import { Records } from "./records.ts";
import { Reports } from "./reports.ts";
import { Review } from "./review.ts";
import { Status } from "./status.ts";
import { tellError } from "./tell.ts";
import { TestResults } from "./testing.ts";
import { Tree, grantRows, sandboxRows, sessionRows, snapshotRows } from "./trees.ts";

export function activate(context: vscode.ExtensionContext): void {
  const began = performance.now();
  const log = vscode.window.createOutputChannel("Gloveport", { log: true });
  const { version } = context.extension.packageJSON as { readonly version: string };
  const { extensionUri, secrets } = context;
  const daemon = new Daemon(log, version);
  const sessions = sessionsOf(context.workspaceState, daemon, log);
  const fresh = new Fresh();
  const actions = new Actions(daemon, sessions, fresh);
  const documents = new Documents();
  const review = new Review(daemon, sessions, documents, context.globalState, log);
  const status = new Status(daemon, sessions, actions);
  const reports = new Reports(extensionUri, daemon, actions, status, log);
  const pickers = new Pickers(daemon, sessions, actions, fresh, secrets, context.globalState);
  const records = new Records(daemon, sessions, actions, documents);
  const rules = new OwnRules(daemon, sessions, actions);
  const answers = new Answers(daemon, actions, documents);
  pickers.onKey = (words) => answers.takeKey(words);
  const pictured: Pictured = { daemon, sessions, standing: "", fresh };
  const commands = new Commands({ log, daemon, sessions, actions, answers, documents, pickers, records, rules, review, reports });
  const panel = new PanelView(extensionUri, pictured, sessions, actions, log, commands.doors);
  const marks = new HunkMarks(vscode.Uri.joinPath(extensionUri, "media"), review);
  commands.panel = panel;
  commands.hunks = new HunkCommands(sessions, actions, review, marks, (words) => panel.draft(words));
  daemon.link.wanted = () => sessions.wantsLink || panel.visible;
  daemon.environment = () => keptKeys(secrets, context.globalState);

  context.subscriptions.push(
    ...[log, daemon, sessions, documents, records, rules, review, status, panel, marks],
    new Buffers(daemon),
    new Notifier(sessions, actions, panel, log),
    new TestResults(sessions),
    vscode.window.registerWebviewViewProvider(VIEW_ID, panel),
    vscode.window.registerUriHandler({ handleUri: () => void panel.focus("composer") }), // it focuses, whatever the address says
    daemon.onTold((notice) => showNotice(log, pictured, panel, notice)),
    daemon.link.onLost(() => {
      pictured.standing = "";
      panel.refresh();
    }),
    fresh.onChange(() => panel.refresh()),
    sessions.onSwitch((session) => void vscode.commands.executeCommand("setContext", "gloveport.session", session !== null)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (["command", "commandArguments"].some((name) => change.affectsConfiguration(`gloveport.${name}`))) {
        void daemon.link.renew();
      }
    }),
    vscode.workspace.onDidSaveTextDocument(({ uri }) => {
      if (uri.fsPath === fresh.settingsPath && daemon.state.kind === "ready") {
        daemon
          .connect()
          .then((rpc) => fresh.learn(rpc))
          .catch((error: unknown) => log.warn(String(error)));
      }
    }),
    daemon.link.onOpened((rpc) => fresh.learn(rpc).catch((error: unknown) => log.warn(String(error)))),
    ...trees(daemon, sessions, rules),
    ...commands.register(),
  );
  log.info(`activated in ${(performance.now() - began).toFixed(1)} ms`);
  log.info(`folders: ${sessions.roots.length}, trusted: ${vscode.workspace.isTrusted}`);
  sessions.resume().catch((error: unknown) => log.warn(String(error)));
}

const OPEN_KEY = "gloveport.open";
const WINDOW_BYTES = 1 << 20;

function sessionsOf(memory: vscode.Memento, daemon: Daemon, log: vscode.LogOutputChannel): Sessions {
  const roots = (): readonly string[] =>
    (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
  const window = {
    roots,
    recall: () => memory.get<Remembered>(OPEN_KEY),
    remember: (open: Remembered) => void memory.update(OPEN_KEY, open),
  };
  const windowBytes = (): number => vscode.workspace.getConfiguration("gloveport").get<number>("windowBytes", WINDOW_BYTES);
  return new Sessions(daemon.link, window, { sha256, later, windowBytes, onFault: (error) => log.error(String(error)) });
}

export function deactivate(): void {
  // Everything is disposed with the context; the daemon goes on with its turns.
}

function trees(daemon: Daemon, sessions: Sessions, rules: OwnRules): readonly Disposable[] {
  const grants = new Tree(grantRows(daemon, sessions, rules));
  const list = new Tree(sessionRows(sessions));
  const snapshots = new Tree(snapshotRows(daemon, sessions));
  const sandboxes = new Tree(sandboxRows(daemon));
  const register = (name: string, tree: Tree): Disposable => vscode.window.registerTreeDataProvider(`gloveport.${name}`, tree);
  return [
    ...[grants, list, snapshots, sandboxes],
    register("grants", grants),
    register("sessions", list),
    register("snapshots", snapshots),
    register("sandboxes", sandboxes),
    sessions.onList(() => list.refresh()),
    sessions.onSwitch(() => [grants, snapshots].forEach((tree) => tree.refresh())),
    sessions.onEvents(({ events }) => {
      if (events.some(({ type }) => /^(Grant|Turn|SessionRulesSet)/.test(type))) {
        grants.refresh();
      }
      if (events.some(({ type }) => /^(SnapshotTaken|TurnStarted|ChangeApplied)/.test(type))) {
        snapshots.refresh();
      }
    }),
    daemon.link.onState(({ kind }) => {
      void vscode.commands.executeCommand("setContext", "gloveport.connected", kind === "ready");
      if (kind === "ready" || kind === "lost") {
        [grants, snapshots, sandboxes].forEach((tree) => tree.refresh());
      }
    }),
  ];
}

/** The daemon saves nothing, or saves again: it stands in the panel until it is untrue. */
function showNotice(log: vscode.LogOutputChannel, pictured: Pictured, panel: PanelView, notice: DaemonTold): void {
  pictured.standing = notice.accepting ? "" : notice.words;
  panel.refresh();
  if (notice.accepting) {
    log.info(notice.words);
    return;
  }
  log.error(notice.words);
  if (!panel.visible) {
    tellError(`Gloveport: ${notice.words}`);
  }
}
