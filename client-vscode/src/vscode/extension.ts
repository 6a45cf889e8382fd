/**
 * The extension's composition root.
 *
 * Purpose: commands and views, wired to one connection.
 * Invariant: `activate` never rejects: what is missing is told where it is wanted; a restricted workspace can look, not
 * start or decide.
 * Must never: collect or send telemetry.
 */

import * as vscode from "vscode";
import type { DaemonTold } from "../../../protocol/typescript/wire.ts";
import { Actions } from "./actions.ts";
import { Buffers } from "./buffers.ts";
import { Commands } from "./commands.ts";
import { Daemon } from "./daemon.ts";
import { Documents } from "./documents.ts";
import { PanelView, VIEW_ID } from "./panelView.ts";
import type { Pictured } from "./picture.ts";
import { Sessions } from "./sessions.ts";

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Gloveport", { log: true });
  const { version } = context.extension.packageJSON as { readonly version: string };
  const daemon = new Daemon(log, version);
  const sessions = new Sessions(daemon, context.workspaceState, log);
  const actions = new Actions(daemon, sessions);
  const documents = new Documents();
  const pictured: Pictured = { daemon, sessions, standing: "", model: "" };
  const commands = new Commands({ log, daemon, sessions, actions, documents });
  const panel = new PanelView(context.extensionUri, pictured, sessions, actions, log, commands.doors);
  commands.panel = panel;
  daemon.wanted = () => sessions.wantsLink || panel.visible;

  context.subscriptions.push(
    log,
    daemon,
    sessions,
    documents,
    panel,
    new Buffers(daemon),
    vscode.window.registerWebviewViewProvider(VIEW_ID, panel),
    daemon.onTold((notice) => showNotice(log, pictured, panel, notice)),
    daemon.onLost(() => {
      pictured.standing = "";
      panel.refresh();
    }),
    ...commands.register(),
  );
  sessions.resume().catch((error: unknown) => log.warn(String(error)));
}

export function deactivate(): void {
  // Everything is disposed with the context; the daemon goes on with its turns.
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
    void vscode.window.showErrorMessage(`Gloveport: ${notice.words}`);
  }
}
