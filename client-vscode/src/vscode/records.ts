/**
 * What the user says to a session's record.
 *
 * Purpose: the user's word about a call whose outcome nobody knows, a frozen session let go on, a text taken out for good.
 * Invariant: what can't be taken back is asked about with what goes and what stays, and the user types what the daemon wants typed.
 * Must never: say or type anything for the user.
 */

import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { Followed } from "../common/followed.ts";
import { labelText } from "../common/plain.ts";
import { SAYINGS, openCalls } from "../common/said.ts";
import type { Said } from "../common/said.ts";
import type { Sessions } from "../common/sessions.ts";
import { counted, grouped } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import type { Daemon } from "./daemon.ts";
import type { Documents } from "./documents.ts";
import { confirm, show } from "./tell.ts";

const LEAVE = { label: "Leave it", detail: "Nothing is said; it stays unknown." } as const;

const FOR_GOOD = "It is said once and can’t be taken back.";

/** The end of a session's id that a person types before what can't be taken back. */
const MARK_CHARS = 6;
/** Of a text to erase, as the daemon takes it. */
const ERASED_CHARS_MIN = 6;
const ERASED_CHARS_MAX = 4096;
const WHAT_GOES =
  "It goes wherever this session’s record holds it: messages, calls, outputs and answers, also encoded or in pieces. " +
  "This can’t be undone, and it can’t be brought back.\n\n" +
  "What a model’s provider or another session was given, your files and the audit log are not touched.";

/** Events after which another call may be open, or one no more. */
const MAY_OPEN = /^(ToolExecutionFinished|ToolReconciled|OutcomeTold|TextErased)/;

export class Records implements vscode.Disposable {
  private readonly parts: readonly Disposable[];

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly documents: Documents,
  ) {
    const loading = new Map<Followed, Disposable>();
    this.parts = [
      sessions.onSwitch((session) => {
        loading.forEach((one) => one.dispose());
        loading.clear();
        if (session !== null) {
          loading.set(
            session,
            session.onLoad(() => this.look()),
          );
        }
        this.look();
      }),
      sessions.onEvents(({ events }) => {
        if (events.some(({ type }) => MAY_OPEN.test(type))) {
          this.look();
        }
      }),
      { dispose: () => loading.forEach((one) => one.dispose()) },
    ];
  }

  /** Whether something can be said of a call, for keys and menus. */
  private look(): void {
    const open = openCalls(this.sessions.current?.view?.items() ?? []).length > 0;
    void vscode.commands.executeCommand("setContext", "gloveport.outcomeUnknown", open);
  }

  dispose(): void {
    vscode.Disposable.from(...this.parts).dispose();
  }

  /** Hand in the user's word about a call, asked once more; what the model will be told. Null when the user turned back. */
  async settle(callId: string, said: Said): Promise<string | null> {
    this.actions.checkTrusted();
    const { id, view } = this.actions.currentOrFail;
    const about = openCalls(view?.items() ?? []).find((one) => one.callId === callId)?.words ?? "this call";
    const saying = SAYINGS.find((one) => one.said === said);
    if (saying === undefined || (await confirm(`${saying.label}: ${about}?`, `${saying.detail} ${FOR_GOOD}`, saying.label)) !== saying.label) {
      return null;
    }
    const connection = await this.daemon.connect();
    const { text } = await connection.call("tool/settle", { clientRequestId: randomUUID(), sessionId: id, callId, said });
    return `The model will be told: ${text}`;
  }

  /**
   * Take a text out of a session's record for good, after the user gave it, typed the end of the session's id and confirmed
   * what goes. `start`: words that were selected. What was erased and what stays is shown; false when the user turned back.
   */
  async erase(sessionId: string, start: string): Promise<boolean> {
    this.actions.checkTrusted();
    const mark = sessionId.slice(-MARK_CHARS);
    const text = start.includes("\n") ? start : await askText(mark, start);
    if (text === undefined) {
      return false;
    }
    checkErasable(text);
    const where = `session ${mark} of ${this.sessions.info(sessionId)?.root ?? "its folder"}`; // its title may hold the text
    const typed = await askMark(mark, `Erase ${counted(text.length, "character")} from ${where} (2 of 2)`);
    if (typed === undefined || (await confirm(`Erase this text from ${where} for good?`, WHAT_GOES, "Erase")) !== "Erase") {
      return false;
    }
    const connection = await this.daemon.connect();
    const done = await connection.call("session/erase", { clientRequestId: randomUUID(), sessionId, text, typed });
    this.documents.erase(text);
    const erased = `${counted(done.events, "event")} and ${counted(done.outputs, "output")}`;
    await show(`Erased from session ${mark}: ${erased}.`, ["Not erased:", ...done.stays.map((one) => `• ${one}`)].join("\n"));
    return true;
  }

  /** Let a frozen session work again: the user types the end of its id. False when the user turned back. */
  async thaw(sessionId: string): Promise<boolean> {
    this.actions.checkTrusted();
    const typed = await askMark(sessionId.slice(-MARK_CHARS), "Let this frozen session work again");
    if (typed === undefined) {
      return false;
    }
    const connection = await this.daemon.connect();
    await connection.call("session/thaw", { clientRequestId: randomUUID(), sessionId, typed });
    return true;
  }

  /** Ask which call is meant, where there are several, and what became of it. Null when the user says nothing. */
  async askAndSettle(): Promise<string | null> {
    this.actions.checkTrusted();
    const calls = openCalls(this.actions.currentOrFail.view?.items() ?? []);
    if (calls.length === 0) {
      throw new Error("No call of this session has an unknown outcome. Nothing needs to be said.");
    }
    const rows = calls.map((one) => ({ label: labelText(one.words), description: one.callId, one }));
    const picked =
      rows.length === 1 ? rows[0] : await vscode.window.showQuickPick(rows, { title: "Calls whose outcome nobody knows", placeHolder: "Which one?" });
    if (picked === undefined) {
      return null;
    }
    const said = await vscode.window.showQuickPick([...SAYINGS, LEAVE], {
      title: `What became of ${picked.label}?`,
      placeHolder: "Look first. Your answer is told to the model as your word; nothing is run by it",
    });
    return said === undefined || !("said" in said) ? null : this.settle(picked.one.callId, said.said);
  }
}

/** The text to erase, which is not shown while it is typed; undefined when the user turned back. */
function askText(mark: string, start: string): Thenable<string | undefined> {
  return vscode.window.showInputBox({
    title: `Text to erase from session ${mark} (1 of 2)`,
    prompt: "It is not shown. Give all of a secret, or the part that matters.",
    value: start,
    password: true,
    ignoreFocusOut: true,
    validateInput: (text) => (isErasable(text) ? null : LENGTH_WORDS),
  });
}

const LENGTH_WORDS = `The text to erase has ${ERASED_CHARS_MIN} to ${grouped(ERASED_CHARS_MAX)} characters`;

function isErasable(text: string): boolean {
  return text.length >= ERASED_CHARS_MIN && text.length <= ERASED_CHARS_MAX;
}

function checkErasable(text: string): void {
  if (!isErasable(text)) {
    throw new Error(`${LENGTH_WORDS}, not ${grouped(text.length)}.`);
  }
}

/** The end of the session's id as the user types it; undefined when the user turned back. */
function askMark(mark: string, title: string): Thenable<string | undefined> {
  return vscode.window.showInputBox({
    title,
    prompt: `Type ${mark} to go on.`,
    ignoreFocusOut: true,
    validateInput: (typed) => (typed === mark ? null : `Type ${mark}, the end of the session’s id`),
  });
}
