/**
 * The sessions of this window.
 *
 * Purpose: the list, the one that is shown, and all that are followed; what was open is open again after a reload.
 * Invariant: one follower a session; every follower is attached again when the link comes back.
 * Must never: start a daemon because a window was opened in which no session was open.
 */

import * as vscode from "vscode";
import type { SessionInfo, WireEvent } from "../../../protocol/typescript/wire.ts";
import type { Connection } from "../node/connection.ts";
import type { Daemon } from "./daemon.ts";
import { Followed } from "./followed.ts";

const LIST_LIMIT = 200;
/** Sessions followed beside the one that is shown, so that a question of theirs is seen. */
const FOLLOWED_MAX = 8;
const LIST_AFTER_MS = 120;
const OPEN_KEY = "gloveport.open";
const LISTED = /^(Session|Turn|Approval|Model(Selected|RequestStarted)|Sandbox|ToolExecution(Started|Finished)|WorkspaceTrusted)/;

interface Remembered {
  readonly current: string | null;
  readonly followed: readonly string[];
}

export class Sessions implements vscode.Disposable {
  private readonly daemon: Daemon;
  private readonly memory: vscode.Memento;
  private readonly log: vscode.LogOutputChannel;
  private readonly followed = new Map<string, Followed>();
  private timer: NodeJS.Timeout | null = null;
  private shown: Followed | null = null;
  list: readonly SessionInfo[] = [];

  private readonly listed = new vscode.EventEmitter<void>();
  readonly onList = this.listed.event;
  private readonly switched = new vscode.EventEmitter<Followed | null>();
  readonly onSwitch = this.switched.event;
  private readonly happened = new vscode.EventEmitter<{ readonly session: Followed; readonly events: readonly WireEvent[] }>();
  readonly onEvents = this.happened.event;
  private readonly changed = new vscode.EventEmitter<Followed>();
  readonly onChange = this.changed.event;

  constructor(daemon: Daemon, memory: vscode.Memento, log: vscode.LogOutputChannel) {
    this.daemon = daemon;
    this.memory = memory;
    this.log = log;
    daemon.onOpened((connection) => void this.attachAll(connection));
    daemon.onLost(() => this.followed.forEach((one) => one.detach()));
  }

  get current(): Followed | null {
    return this.shown;
  }

  get all(): readonly Followed[] {
    return [...this.followed.values()];
  }

  /** Whether anything is open for which the link is wanted. */
  get wantsLink(): boolean {
    return this.followed.size > 0;
  }

  info(id: string): SessionInfo | undefined {
    return this.list.find((one) => one.sessionId === id);
  }

  /** Folders of this window that an agent can work in. */
  get roots(): readonly string[] {
    return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
  }

  isHere(session: SessionInfo): boolean {
    return this.roots.includes(session.root);
  }

  /** What was open when this window was closed or reloaded. */
  async resume(): Promise<void> {
    const { current, followed } = this.memory.get<Remembered>(OPEN_KEY, { current: null, followed: [] });
    if (current === null && followed.length === 0) {
      return;
    }
    await this.refresh();
    const known = new Set(this.list.map((one) => one.sessionId));
    for (const id of followed.filter((one) => known.has(one)).slice(0, FOLLOWED_MAX)) {
      await this.follow(id);
    }
    if (current !== null && known.has(current)) {
      await this.show(current);
    }
  }

  /** Read the list anew. */
  async refresh(): Promise<void> {
    const connection = await this.daemon.connect();
    const { sessions } = await connection.call("session/list", { limit: LIST_LIMIT });
    this.list = [...sessions.filter((one) => this.isHere(one)), ...sessions.filter((one) => !this.isHere(one))];
    this.listed.fire();
    await this.followBusy();
  }

  /** A session of this window that runs or waits is followed, shown or not: its questions are to be seen. */
  private async followBusy(): Promise<void> {
    for (const one of this.list) {
      if (this.isHere(one) && one.phase !== "idle" && !this.followed.has(one.sessionId) && this.followed.size < FOLLOWED_MAX) {
        await this.follow(one.sessionId).catch((error: unknown) => this.log.error(String(error)));
      }
    }
  }

  /** Show a session in the panel; null: none, a new one can be begun. */
  async show(id: string | null): Promise<void> {
    this.shown = id === null ? null : await this.follow(id);
    this.remember();
    this.switched.fire(this.shown);
  }

  async follow(id: string): Promise<Followed> {
    const held = this.followed.get(id);
    if (held !== undefined) {
      return held;
    }
    const connection = await this.daemon.connect();
    const already = this.followed.get(id);
    if (already !== undefined) {
      return already;
    }
    const made = new Followed(id, (error) => this.log.error(String(error)));
    this.followed.set(id, made);
    made.onEvents((events) => {
      this.happened.fire({ session: made, events });
      if (events.some(({ type }) => LISTED.test(type))) {
        this.refreshSoon();
      }
    });
    made.onChange(() => this.changed.fire(made));
    try {
      await made.attach(connection);
    } catch (error) {
      this.forget(id);
      throw error;
    }
    this.remember();
    return made;
  }

  /** Stop following a session, such as one that was deleted. */
  forget(id: string): void {
    this.followed.get(id)?.dispose();
    this.followed.delete(id);
    if (this.shown?.id === id) {
      this.shown = null;
      this.switched.fire(null);
    }
    this.remember();
  }

  refreshSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.refresh().catch((error: unknown) => this.log.error(String(error)));
    }, LIST_AFTER_MS);
  }

  private remember(): void {
    const open: Remembered = { current: this.shown?.id ?? null, followed: [...this.followed.keys()] };
    void this.memory.update(OPEN_KEY, open);
  }

  private async attachAll(connection: Connection): Promise<void> {
    for (const one of this.followed.values()) {
      try {
        await one.attach(connection);
      } catch (error) {
        this.log.error(`session ${one.id}: ${String(error)}`);
      }
    }
    if (this.followed.size > 0) {
      this.refreshSoon();
    }
  }

  dispose(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    this.followed.forEach((one) => one.dispose());
    for (const emitter of [this.listed, this.switched, this.happened, this.changed]) {
      emitter.dispose();
    }
  }
}
