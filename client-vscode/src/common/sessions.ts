/**
 * The sessions of this window.
 *
 * Purpose: the list, the one that is shown, and all that are followed; what was open is open again after a reload.
 * Invariant: one follower a session; every follower is attached again when the link comes back.
 * Must never: forget what was open because the daemon was away, or start a daemon because a window was opened in which no session was open.
 */

import type { SessionInfo, WireEvent } from "../../../protocol/typescript/wire.ts";
import { Emitter } from "./emitter.ts";
import type { Disposable, Event } from "./emitter.ts";
import { Followed, isGone } from "./followed.ts";
import type { FollowTools } from "./followed.ts";
import type { Rpc } from "./rpc.ts";
import { Titles } from "./titles.ts";

const LIST_LIMIT = 200;
/** Sessions followed beside the one that is shown, so that a question of theirs is seen. */
const FOLLOWED_MAX = 8;
const LIST_AFTER_MS = 120;
const LISTED = /^(Session|Turn|Approval|Model(Selected|RequestStarted)|Sandbox|ToolExecution(Started|Finished)|WorkspaceTrusted|TextErased)/;

/** What was open, for the window that comes after this one. */
export interface Remembered {
  readonly current: string | null;
  readonly followed: readonly string[];
}

/** The link, as far as sessions need it. */
export interface SessionLink {
  connect(): Promise<Rpc>;
  readonly onOpened: Event<Rpc>;
  readonly onLost: Event<void>;
}

/** The window, as far as sessions need it. */
export interface SessionWindow {
  /** Folders that an agent can work in. */
  roots(): readonly string[];
  recall(): Remembered | undefined;
  remember(open: Remembered): void;
}

export class Sessions implements Disposable {
  private readonly followed = new Map<string, Followed>();
  private timer: Disposable | null = null;
  private refreshing: Promise<void> | null = null;
  private shown: Followed | null = null;
  /** What was open before and is not open again yet. */
  private owed: Remembered | null;
  private shows = 0;
  private readonly titles = new Titles();
  /** The list as the daemon told it. */
  private told: readonly SessionInfo[] = [];
  list: readonly SessionInfo[] = [];

  private readonly listed = new Emitter<void>();
  readonly onList = this.listed.event;
  private readonly switched = new Emitter<Followed | null>();
  readonly onSwitch = this.switched.event;
  private readonly happened = new Emitter<{ readonly session: Followed; readonly events: readonly WireEvent[] }>();
  readonly onEvents = this.happened.event;
  private readonly changed = new Emitter<Followed>();
  readonly onChange = this.changed.event;

  constructor(
    private readonly link: SessionLink,
    private readonly window: SessionWindow,
    private readonly tools: FollowTools,
  ) {
    const before = window.recall();
    this.owed = before !== undefined && (before.current !== null || before.followed.length > 0) ? before : null;
    link.onOpened((connection) => void this.attachAll(connection));
    link.onLost(() => this.followed.forEach((one) => one.detach()));
  }

  get current(): Followed | null {
    return this.shown;
  }

  get all(): readonly Followed[] {
    return [...this.followed.values()];
  }

  /** Whether anything is open, or was, for which the link is wanted. */
  get wantsLink(): boolean {
    return this.owed !== null || this.followed.size > 0;
  }

  /** What a session is called; empty for one that is not listed. */
  title(id: string): string {
    return this.info(id)?.title ?? "";
  }

  info(id: string): SessionInfo | undefined {
    return this.list.find((one) => one.sessionId === id);
  }

  get roots(): readonly string[] {
    return this.window.roots();
  }

  isHere(session: SessionInfo): boolean {
    return this.roots.includes(session.root);
  }

  /** Open what was open when this window was closed or reloaded; where the link is missing, as soon as there is one. */
  async resume(): Promise<void> {
    if (this.owed === null) {
      return;
    }
    await this.refresh();
    const { owed } = this;
    if (owed === null) {
      return; // the link that was opened for this has done it
    }
    this.owed = null;
    const known = new Set(this.list.map((one) => one.sessionId));
    for (const id of owed.followed.filter((one) => known.has(one)).slice(0, FOLLOWED_MAX)) {
      await this.follow(id).catch(this.tools.onFault); // one that can't be followed keeps no other from being
    }
    if (owed.current !== null && known.has(owed.current) && this.shows === 0) {
      await this.show(owed.current);
    }
    this.remember();
  }

  /** Read the list anew; who asks while it is read gets that answer. */
  refresh(): Promise<void> {
    this.refreshing ??= this.read().finally(() => (this.refreshing = null));
    return this.refreshing;
  }

  private async read(): Promise<void> {
    const connection = await this.link.connect();
    const { sessions } = await connection.call("session/list", { limit: LIST_LIMIT });
    this.told = [...sessions.filter((one) => this.isHere(one)), ...sessions.filter((one) => !this.isHere(one))];
    this.list = this.titles.named(this.told);
    this.listed.fire();
    await this.followBusy();
    void this.learnTitles(connection); // nobody waits for words
  }

  private async learnTitles(connection: Rpc): Promise<void> {
    try {
      if (await this.titles.learn(connection, this.told)) {
        this.list = this.titles.named(this.told);
        this.listed.fire();
      }
    } catch (error) {
      this.tools.onFault(error);
    }
  }

  /** A session of this window that runs or waits is followed, shown or not: its questions are to be seen. */
  private async followBusy(): Promise<void> {
    for (const one of this.list) {
      if (this.isHere(one) && one.phase !== "idle" && !this.followed.has(one.sessionId) && this.followed.size < FOLLOWED_MAX) {
        await this.follow(one.sessionId).catch(this.tools.onFault);
      }
    }
  }

  /** Show a session in the panel; null: none, a new one can be begun. What was asked for last is what is shown. */
  async show(id: string | null): Promise<void> {
    this.shows += 1;
    const mine = this.shows;
    const session = id === null ? null : await this.follow(id);
    if (mine === this.shows) {
      this.shown = session;
      this.remember();
      this.switched.fire(session);
    }
  }

  async follow(id: string): Promise<Followed> {
    const held = this.followed.get(id);
    if (held !== undefined) {
      return held;
    }
    const connection = await this.link.connect();
    const already = this.followed.get(id);
    if (already !== undefined) {
      return already;
    }
    const made = new Followed(id, this.tools);
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
      if (isGone(error)) {
        this.forget(id);
        throw error;
      }
      this.tools.onFault(error); // the link was lost meanwhile, or it is tried again: it comes with the next one
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
    this.timer ??= this.tools.later(LIST_AFTER_MS, () => {
      this.timer = null;
      const before = this.refreshing ?? Promise.resolve();
      before
        .catch(() => undefined) // whoever asked was told
        .then(() => this.refresh())
        .catch(this.tools.onFault);
    });
  }

  private remember(): void {
    if (this.owed !== null) {
      return;
    }
    this.window.remember({ current: this.shown?.id ?? null, followed: [...this.followed.keys()] });
  }

  private async attachAll(connection: Rpc): Promise<void> {
    for (const one of [...this.followed.values()]) {
      await one.attach(connection).catch(this.tools.onFault);
    }
    if (this.owed !== null) {
      await this.resume().catch(this.tools.onFault);
    } else if (this.followed.size > 0) {
      this.refreshSoon();
    }
  }

  dispose(): void {
    this.timer?.dispose();
    this.followed.forEach((one) => one.dispose());
    for (const emitter of [this.listed, this.switched, this.happened, this.changed]) {
      emitter.dispose();
    }
  }
}
