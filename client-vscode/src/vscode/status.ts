/**
 * The status bar item.
 *
 * Purpose: trust, sandbox and what waits, in one place; the rest in its hover.
 * Invariant: it says what the daemon answered; without a link it says so.
 * Must never: set text of data as markdown.
 */

import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import { capital, dollars, grouped } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";
import type { Sessions } from "../common/sessions.ts";

const LINKS = ["gloveport.chooseSandbox", "gloveport.runDoctor", "gloveport.chooseTrust", "gloveport.verifyAudit"] as const;

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("gloveport.status", vscode.StatusBarAlignment.Right, 90);
  private readonly parts: Disposable[];
  private said = "";
  /** What the doctor found last, by sandbox. */
  readonly findings = new Map<string, string>();

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: Sessions,
    private readonly actions: Actions,
  ) {
    this.item.name = "Gloveport";
    this.parts = [
      sessions.onSwitch(() => this.draw()),
      sessions.onChange(() => this.draw()),
      sessions.onList(() => this.draw()),
      daemon.link.onState(() => this.draw()),
    ];
    this.draw();
    this.item.show();
  }

  draw(): void {
    const { item, daemon, sessions } = this;
    const info = sessions.current?.beside.detail?.info;
    const waiting = this.actions.waiting().length;
    item.command = waiting > 0 ? "gloveport.goToApproval" : info === undefined ? "gloveport.focusComposer" : "gloveport.chooseSandbox";
    item.backgroundColor = waiting > 0 ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    if (daemon.state.kind !== "ready" && daemon.state.kind !== "idle" && daemon.state.kind !== "starting") {
      item.text = "$(shield) Gloveport: not connected";
      this.say(daemon.state.words);
      item.accessibilityInformation = { label: `Gloveport is not connected. ${daemon.state.words}` };
      return;
    }
    const where = info === undefined ? "Gloveport" : `${capital(info.trustLevel)}: ${info.sandbox}`;
    item.text = waiting > 0 ? `$(bell-dot) ${waiting === 1 ? "1 approval waits" : `${waiting} approvals wait`}` : `$(shield) ${where}`;
    item.accessibilityInformation = { label: `Gloveport. ${where}` };
    this.say(this.hover());
  }

  /** A hover that is open closes when it is set, so it is set only when it says something else. */
  private say(words: vscode.MarkdownString | string): void {
    const value = typeof words === "string" ? words : words.value;
    if (value !== this.said) {
      this.said = value;
      this.item.tooltip = words;
    }
  }

  private hover(): vscode.MarkdownString {
    const text = new vscode.MarkdownString(undefined, true);
    text.isTrusted = { enabledCommands: [...LINKS] };
    const { current } = this.sessions;
    const info = current?.beside.detail?.info;
    if (current === null || info === undefined) {
      text.appendMarkdown("$(shield) **Gloveport**\n\nNo session is open.");
      return text;
    }
    const { usage } = current.beside;
    text.appendMarkdown("$(shield) **");
    text.appendText(`${capital(info.trustLevel)} workspace, ${info.sandbox}`);
    text.appendMarkdown("**\n\n");
    const line = (term: string, words: string): void => {
      text.appendMarkdown(`${term}: `);
      text.appendText(words);
      text.appendMarkdown("\n\n");
    };
    line("Model", info.modelLabel);
    line("Doctor", this.findings.get(info.sandbox) ?? "not run in this window");
    line("Cost", usage?.costNanoUsd == null ? "unpriced" : dollars(usage.costNanoUsd));
    line("Journal", current.inSync ? `in sync at #${grouped(current.view?.watermark ?? 0)}` : "not yet proven in sync");
    text.appendMarkdown(
      "[Change sandbox](command:gloveport.chooseSandbox) · [Doctor](command:gloveport.runDoctor) · [Trust](command:gloveport.chooseTrust) · [Verify audit](command:gloveport.verifyAudit)",
    );
    return text;
  }

  dispose(): void {
    vscode.Disposable.from(this.item, ...this.parts).dispose();
  }
}
