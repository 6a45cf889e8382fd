/**
 * One session that this window follows.
 *
 * Purpose: its reduced view, and what is asked of the daemon beside it: detail, proposals, usage, since when.
 * Invariant: what is asked is asked again after every event that may have changed it; a lost link keeps the view.
 * Must never: decide.
 */

import * as vscode from "vscode";
import type { ChangeInfo, SessionDetail, UsageSums, ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";
import { SessionFollower } from "../common/follower.ts";
import type { View } from "../common/reducer.ts";
import { sha256 } from "../node/digest.ts";
import type { Connection } from "../node/connection.ts";

const WINDOW_BYTES = 1 << 20;
/** So long are events gathered before the daemon is asked about what they changed. */
const ASK_AFTER_MS = 60;

const CHANGES = /^(Change|Hunk|Edits|Drift|SessionCreated)/;
const USAGE = /^(Usage|ModelResponse|SessionCreated)/;
const DETAIL =
  /^(Turn|Session|User|Steering|Goal|Approval|Model(?!TextDelta)|Sandbox|Tool(?!ExecutionProgress)|Retry|Compaction|Recovery|Faults|Workspace)/;

export interface Beside {
  readonly detail: SessionDetail | null;
  readonly changes: readonly ChangeInfo[];
  readonly usage: UsageSums | null;
  readonly since: number | null;
  /** Input tokens of the newest request that was counted. */
  readonly contextTokens: number | null;
}

export class Followed implements vscode.Disposable {
  readonly id: string;
  private follower: SessionFollower | null = null;
  private kept: View | null = null;
  private cursor: string | null = null;
  private timer: NodeJS.Timeout | null = null;
  private readonly stale = new Set<"detail" | "changes" | "usage">(["detail", "changes", "usage"]);
  private connection: Connection | null = null;
  private readonly onFault: (error: unknown) => void;
  beside: Beside = { detail: null, changes: [], usage: null, since: null, contextTokens: null };
  /** Whether the link was lost and what is shown may be old. */
  private cameBack = false;

  private readonly loaded = new vscode.EventEmitter<void>();
  readonly onLoad = this.loaded.event;
  private readonly happened = new vscode.EventEmitter<readonly WireEvent[]>();
  readonly onEvents = this.happened.event;
  private readonly older = new vscode.EventEmitter<{ readonly items: readonly ViewItem[]; readonly first: number }>();
  readonly onOlder = this.older.event;
  private readonly changed = new vscode.EventEmitter<void>();
  /** What stands beside the view, or whether it is in sync, changed. */
  readonly onChange = this.changed.event;
  private readonly synced = new vscode.EventEmitter<number>();
  /** The view was proven equal to the daemon's for the first time after the link came back; the seq. */
  readonly onBackInSync = this.synced.event;

  constructor(id: string, onFault: (error: unknown) => void) {
    this.id = id;
    this.onFault = onFault;
  }

  get view(): View | null {
    return this.follower?.view ?? this.kept;
  }

  /** Why the session is gone; null while it is there. */
  get ended(): string | null {
    return this.follower?.ended ?? null;
  }

  get inSync(): boolean {
    return this.follower?.inSync === true;
  }

  /** Follow over this connection: anew, or from the last durable cursor after a lost one. */
  async attach(connection: Connection): Promise<void> {
    this.connection = connection;
    const follower = new SessionFollower(
      connection,
      {
        sessionId: this.id,
        windowBytes: vscode.workspace.getConfiguration("gloveport").get<number>("windowBytes", WINDOW_BYTES),
        sha256,
        onChange: () => this.settled(),
        onFault: this.onFault,
        onLoad: () => this.loaded.fire(),
        onEvents: (events) => this.take(events),
        onOlder: (items, first) => this.older.fire({ items, first }),
      },
      this.kept ?? undefined,
    );
    this.follower = follower;
    follower.durableCursor = this.cursor;
    await follower.start(this.kept === null ? null : this.cursor);
    this.askSoon("detail", "changes", "usage");
  }

  /** The link is gone: keep the view and the cursor for the next one. */
  detach(): void {
    this.kept = this.follower?.view ?? this.kept;
    this.cursor = this.follower?.durableCursor ?? this.cursor;
    this.follower?.drop();
    this.follower = null;
    this.connection = null;
    this.cameBack = true;
    this.changed.fire();
  }

  async loadOlder(): Promise<boolean> {
    return (await this.follower?.older()) ?? false;
  }

  private settled(): void {
    if (this.inSync && this.cameBack) {
      this.cameBack = false;
      this.synced.fire(this.view?.watermark ?? 0);
    }
    this.changed.fire();
  }

  private take(events: readonly WireEvent[]): void {
    this.happened.fire(events);
    for (const { type } of events) {
      if (DETAIL.test(type)) {
        this.stale.add("detail");
      }
      if (CHANGES.test(type)) {
        this.stale.add("changes");
      }
      if (USAGE.test(type)) {
        this.stale.add("usage");
      }
    }
    if (this.stale.size > 0) {
      this.askSoon();
    }
  }

  private askSoon(...what: readonly ("detail" | "changes" | "usage")[]): void {
    what.forEach((one) => this.stale.add(one));
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.ask().catch((error: unknown) => this.onFault(error));
    }, ASK_AFTER_MS);
  }

  private async ask(): Promise<void> {
    const { connection } = this;
    if (connection === null) {
      return;
    }
    const wanted = new Set(this.stale);
    this.stale.clear();
    const sessionId = this.id;
    const [detail, task, changes, usage] = await Promise.all([
      wanted.has("detail") ? connection.call("session/show", { sessionId }) : null,
      wanted.has("detail") ? connection.call("task/show", { sessionId }) : null,
      wanted.has("changes") ? connection.call("change/list", { sessionId }) : null,
      wanted.has("usage") ? connection.call("usage/show", { sessionId, turns: 0, requests: 1 }) : null,
    ]);
    this.beside = {
      detail: detail ?? this.beside.detail,
      changes: changes?.changes ?? this.beside.changes,
      usage: usage?.total ?? this.beside.usage,
      since: task === null ? this.beside.since : task.since,
      contextTokens: usage?.requests.at(-1)?.inputTokens ?? this.beside.contextTokens,
    };
    this.changed.fire();
  }

  dispose(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    this.follower?.stop().catch(() => undefined);
    for (const emitter of [this.loaded, this.happened, this.older, this.changed, this.synced]) {
      emitter.dispose();
    }
  }
}
