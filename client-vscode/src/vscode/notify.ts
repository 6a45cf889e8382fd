/**
 * Telling of approvals that wait.
 *
 * Purpose: a badge always, a notification only while the panel is hidden.
 * Invariant: a notification offers Deny and Open card, never Allow; each card is told of once.
 * Must never: take the focus.
 */

import * as vscode from "vscode";
import { capital } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import type { PanelView } from "./panelView.ts";
import type { Sessions } from "../common/sessions.ts";
import { warn } from "./tell.ts";

const LINE_CHARS_MAX = 120;

export class Notifier implements vscode.Disposable {
  private readonly told = new Set<string>();
  private readonly part: vscode.Disposable;

  constructor(
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly panel: PanelView,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.part = vscode.Disposable.from(
      sessions.onEvents(({ events }) => {
        if (events.some(({ type }) => type.startsWith("Approval"))) {
          this.look();
        }
      }),
      sessions.onSwitch(() => this.look()),
    );
  }

  private look(): void {
    const waiting = this.actions.waiting();
    this.panel.badge(waiting.length);
    void vscode.commands.executeCommand("setContext", "gloveport.approvalWaits", waiting.length > 0);
    for (const one of waiting) {
      const key = `${one.session.id} ${one.approvalId}`;
      const shown = this.panel.visible && this.sessions.current?.id === one.session.id;
      if (!this.told.has(key) && !shown) {
        this.told.add(key);
        this.notify(one).catch((error: unknown) => this.log.error(String(error)));
      }
    }
  }

  private async notify(one: ReturnType<Actions["waiting"]>[number]): Promise<void> {
    const summary = one.summary.length > LINE_CHARS_MAX ? `${one.summary.slice(0, LINE_CHARS_MAX)}… (open the card for all of it)` : one.summary;
    const words = `Gloveport waits: ${summary === "" ? one.title : `${summary}.`} ${capital(one.risk)} risk.`;
    const picked = await warn(words, "Open card", "Deny"); // the first one stands out, and leads to all that belongs to the answer
    if (picked === "Open card") {
      await this.sessions.show(one.session.id);
      await this.panel.focus("approval");
    } else if (picked === "Deny") {
      await this.actions.answer(one.session.id, {
        approvalId: one.approvalId,
        cardDigest: one.cardDigest,
        allow: false,
        option: 0,
        uses: null,
        lifetimeS: null,
      });
    }
  }

  dispose(): void {
    this.part.dispose();
  }
}
