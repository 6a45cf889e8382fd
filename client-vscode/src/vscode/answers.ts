/**
 * Asking the daemon about itself, its measures, a command, and the whole of a session.
 *
 * Purpose: what the window can ask at any time, shown as words or as a text of their own.
 * Invariant: nothing is changed by asking; a daemon that does anything for anybody is restarted only after the user confirmed what that stops.
 * Must never: run a command that is asked about.
 */

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { argvOf, explainLines, measureLines, statusLines } from "../common/answers.ts";
import { capital, counted } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";
import type { Documents } from "./documents.ts";
import { confirm, offer, show, tellInformation } from "./tell.ts";

/** A transcript that is longer is cut, and says so. */
const TRANSCRIPT_CHARS_MAX = 20_000_000;
const RESTART = "Restart the Daemon";

export class Answers {
  constructor(
    private readonly daemon: Daemon,
    private readonly actions: Actions,
    private readonly documents: Documents,
  ) {}

  async status(): Promise<void> {
    const connection = await this.daemon.connect();
    const found = await connection.call("daemon/status", {});
    const since = new Date(found.startedAt / 1000).toLocaleString();
    if ((await show(`The daemon runs since ${since}`, statusLines(found).join("\n"), RESTART)) === RESTART) {
      await this.restart();
    }
  }

  /** End the daemon; the link begins another one, with the kept keys. Turns that run are picked up by it. */
  async restart(): Promise<void> {
    this.actions.checkTrusted();
    const connection = await this.daemon.connect();
    const { runningTurns, clients } = await connection.call("daemon/status", {});
    const others = clients > 1 ? ` ${counted(clients - 1, "other client")} lose their connection for a moment.` : "";
    const turns = runningTurns > 0 ? `${counted(runningTurns, "turn")} will be interrupted and picked up again.` : "No turn runs.";
    if ((await confirm("Restart the daemon?", `${turns}${others}`, "Restart")) === "Restart") {
      await this.beginAnew();
    }
  }

  private async beginAnew(): Promise<void> {
    const { link } = this.daemon;
    const connection = await link.connect();
    const lost = new Promise<void>((resolve) => {
      const listening = link.onLost(() => {
        listening.dispose();
        resolve();
      });
    });
    await connection.call("daemon/stop", {});
    await lost; // until then the link is the old one's
    await link.retry();
  }

  /** A key was kept or removed: a daemon that does nothing, for nobody else, begins anew with it at once. */
  async takeKey(words: string): Promise<void> {
    if (this.daemon.state.kind !== "ready") {
      tellInformation(`${words} The daemon begins with that.`);
      return;
    }
    const connection = await this.daemon.connect();
    const { runningTurns, clients } = await connection.call("daemon/status", {});
    if (runningTurns === 0 && clients <= 1 && vscode.workspace.isTrusted) {
      await this.beginAnew();
      tellInformation(`${words} The daemon began anew with that.`);
    } else if ((await offer(`${words} It counts once the daemon is restarted.`, RESTART)) === RESTART) {
      await this.restart();
    }
  }

  async measures(): Promise<void> {
    const connection = await this.daemon.connect();
    const found = await connection.call("metrics/show", {});
    await this.documents.open(this.documents.uri("measures", "measures.txt", randomUUID()), measureLines(found).join("\n"));
  }

  /** What would be decided about a command in the shown session. */
  async explain(): Promise<void> {
    const { id } = this.actions.currentOrFail;
    const line = await vscode.window.showInputBox({
      title: "What would be decided about a command?",
      prompt: "Nothing is run. Quotes keep words together.",
      placeHolder: "pip install requests",
      ignoreFocusOut: true,
      validateInput: (typed) => (argvOf(typed) === null ? "A quote is open" : null),
    });
    const argv = argvOf(line ?? "");
    if (argv !== null && argv.length > 0) {
      const connection = await this.daemon.connect();
      const found = await connection.call("policy/explain", { sessionId: id, argv });
      await show(capital(found.words), explainLines(found).join("\n"));
    }
  }

  /** The whole session in words, as the daemon tells it. */
  async transcript(): Promise<void> {
    const { id } = this.actions.currentOrFail;
    const connection = await this.daemon.connect();
    const pages: string[] = [];
    let size = 0;
    for (let afterSeq: number | null = 0; afterSeq !== null && size < TRANSCRIPT_CHARS_MAX;) {
      const page: { readonly text: string; readonly nextSeq: number | null } = await connection.call("session/transcript", {
        sessionId: id,
        afterSeq,
        format: "plain",
      });
      pages.push(page.text);
      size += page.text.length;
      afterSeq = page.nextSeq;
      if (size >= TRANSCRIPT_CHARS_MAX && afterSeq !== null) {
        pages.push("(Cut here. gloveport transcript tells all of it.)");
      }
    }
    await this.documents.open(this.documents.uri("transcript", `${id}.txt`), pages.join(""));
  }
}
