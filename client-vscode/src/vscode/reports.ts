/**
 * Report tabs: the trace of a turn, the doctor.
 *
 * Purpose: ask the daemon, and show the answer in a tab of its own that can be asked again.
 * Invariant: a tab that says `ready` gets the newest answer; it loads its own script and style and nothing else.
 * Must never: keep a report as if it were new.
 */

import * as vscode from "vscode";
import { auditWords, doctorWords } from "../common/report.ts";
import type { FromReport, ReportData } from "../common/report.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";
import { page } from "./page.ts";
import type { Status } from "./status.ts";
import { tellError, tellInformation } from "./tell.ts";

type Ask = (verify: boolean) => Promise<ReportData>;

export class Reports {
  constructor(
    private readonly extension: vscode.Uri,
    private readonly daemon: Daemon,
    private readonly actions: Actions,
    private readonly status: Status,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** The trace of a turn; without an id that of the newest one. */
  async trace(turnId: string | null): Promise<void> {
    const session = this.actions.currentOrFail;
    const title = this.actions.titleOf(session.id);
    await this.open("trace", "Turn", "history", async (verify) => {
      const connection = await this.daemon.connect();
      const found = await connection.call("trace/show", { sessionId: session.id, turnId, turns: 1 });
      const turn = found.turns.at(-1);
      if (turn === undefined) {
        throw new Error("No turn has run in this session yet.");
      }
      const audit = verify ? await connection.call("audit/verify", {}) : null;
      const number = turnId === null ? String(found.turnsBefore + 1) : "";
      return {
        kind: "trace",
        title,
        number,
        turn,
        notRecorded: found.notRecorded,
        audit: audit === null ? null : { ok: audit.ok, words: auditWords(audit.ok, audit.lines, audit.firstBadLine) },
      };
    });
  }

  async doctor(sandbox: string | null): Promise<void> {
    const connection = await this.daemon.connect();
    const { sandboxes } = await connection.call("sandbox/list", {});
    const name = sandbox ?? this.inUse() ?? sandboxes.find((one) => one.available)?.name;
    if (name === undefined) {
      throw new Error("No sandbox works on this machine.");
    }
    await this.open("doctor", `Doctor: ${name}`, "shield", async () => {
      const again = await this.daemon.connect();
      const began = Date.now();
      const { probes } = await again.call("sandbox/doctor", { sandbox: name });
      this.status.findings.set(name, doctorWords(probes));
      this.status.draw();
      return { kind: "doctor", report: { sandbox: name, probes, rungs: sandboxes, tookMs: Date.now() - began } };
    });
  }

  async verifyAudit(): Promise<void> {
    const connection = await this.daemon.connect();
    const found = await connection.call("audit/verify", {});
    const words = auditWords(found.ok, found.lines, found.firstBadLine);
    (found.ok ? tellInformation : tellError)(`${words} ${found.words}`.trim());
  }

  private inUse(): string | undefined {
    try {
      return this.actions.currentOrFail.beside.detail?.info.sandbox;
    } catch {
      return undefined; // no session is open: the strongest rung is looked at
    }
  }

  private async open(type: string, title: string, icon: string, ask: Ask): Promise<void> {
    const roots = [vscode.Uri.joinPath(this.extension, "media"), vscode.Uri.joinPath(this.extension, "dist")];
    const first = await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title: `${title}: looking` }, () => ask(false));
    const panel = vscode.window.createWebviewPanel(`gloveport.${type}`, title, vscode.ViewColumn.Active, {
      enableScripts: true,
      localResourceRoots: roots,
    });
    panel.iconPath = vscode.Uri.joinPath(this.extension, "media", `${icon}.svg`);
    let data = first;
    const post = async (fresh: ReportData): Promise<void> => {
      data = fresh;
      await panel.webview.postMessage(data);
    };
    panel.webview.onDidReceiveMessage(async (message: FromReport) => {
      try {
        if (message.type === "ready") {
          await post(data);
        } else if (message.type === "copy") {
          await vscode.env.clipboard.writeText(message.text);
        } else {
          await post(await ask(message.type === "verify"));
        }
      } catch (error) {
        const words = error instanceof Error ? error.message : String(error);
        this.log.error(words);
        tellError(`Gloveport: ${words}`);
      }
    });
    panel.webview.html = page(panel.webview, this.extension, "report");
  }
}
