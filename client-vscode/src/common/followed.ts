/**
 * One session that this window follows.
 *
 * Purpose: its reduced view, and what is asked of the daemon beside it: detail, proposals, usage, since when.
 * Invariant: what is asked is asked again after every event that may have changed it; a lost link keeps the view.
 * Must never: decide.
 */

import type { ChangeInfo, SessionDetail, UsageSums, ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";
import { Emitter } from "./emitter.ts";
import type { Disposable, Later } from "./emitter.ts";
import { SessionFollower } from "./follower.ts";
import type { Sha256, View } from "./reducer.ts";
import { GONE, RpcError } from "./rpc.ts";
import type { Rpc } from "./rpc.ts";
import { TURNS_TOLD, TurnTimes } from "./turnFacts.ts";
import type { TurnFacts } from "./turnFacts.ts";

/** So long are events gathered before the daemon is asked about what they changed. */
const ASK_AFTER_MS = 60;
/** Of so many of the newest turns it is asked how long they took; each comes with its timeline. */
const TURNS_TRACED = 12;
/** So long after a question that failed it is asked again, while the connection lives. */
const ASK_AGAIN_MS = 1_000;

const CHANGES = /^(Change|Hunk|Edits|Drift|SessionCreated|SessionRulesSet)/;
const USAGE = /^(Usage|ModelResponse|SessionCreated)/;
const DETAIL =
  /^(Turn|Session|User|Steering|Goal|Approval|Model(?!TextDelta)|Sandbox|Tool(?!ExecutionProgress)|Retry|Compaction|Recovery|Faults|Workspace|Budget|Mode|Usage)/;

export interface Beside {
  readonly detail: SessionDetail | null;
  readonly changes: readonly ChangeInfo[];
  readonly usage: UsageSums | null;
  readonly since: number | null;
  /** Input tokens of the newest request that was counted. */
  readonly contextTokens: number | null;
  readonly turns: TurnFacts;
}

/** What following takes from the platform and from the settings. */
export interface FollowTools {
  readonly sha256: Sha256;
  readonly later: Later;
  readonly windowBytes: () => number;
  readonly onFault: (error: unknown) => void;
}

type Aspect = "detail" | "changes" | "usage" | "times";

export class Followed implements Disposable {
  readonly id: string;
  private follower: SessionFollower | null = null;
  private kept: View | null = null;
  private cursor: string | null = null;
  private timer: Disposable | null = null;
  /** The connection over which a question is under way; one of a link that is gone may never be answered. */
  private asking: Rpc | null = null;
  private readonly stale = new Set<Aspect>(["detail", "changes", "usage"]);
  private connection: Rpc | null = null;
  private attaching: Promise<void> = Promise.resolve();
  private readonly tools: FollowTools;
  private readonly times = new TurnTimes();
  beside: Beside = { detail: null, changes: [], usage: null, since: null, contextTokens: null, turns: {} };
  /** Whether the link was lost and what is shown may be old. */
  private cameBack = false;

  private readonly loaded = new Emitter<void>();
  readonly onLoad = this.loaded.event;
  private readonly happened = new Emitter<readonly WireEvent[]>();
  readonly onEvents = this.happened.event;
  private readonly older = new Emitter<{ readonly items: readonly ViewItem[]; readonly first: number }>();
  readonly onOlder = this.older.event;
  private readonly changed = new Emitter<void>();
  /** What stands beside the view, or whether it is in sync, changed. */
  readonly onChange = this.changed.event;
  private readonly synced = new Emitter<number>();
  /** The view was proven equal to the daemon's for the first time after the link came back; the seq. */
  readonly onBackInSync = this.synced.event;

  constructor(id: string, tools: FollowTools) {
    this.id = id;
    this.tools = tools;
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

  /** Why the view can't be shown as the daemon's any more; null while it can. */
  get fault(): string | null {
    return this.follower?.fault ?? null;
  }

  /** Follow over this connection: anew, or from the last durable cursor after a lost one. Twice over one is once. */
  attach(connection: Rpc): Promise<void> {
    if (this.connection !== connection) {
      this.detach();
      this.connection = connection;
      this.attaching = this.begin(connection);
    }
    return this.attaching;
  }

  private async begin(connection: Rpc): Promise<void> {
    const { sha256, later, windowBytes, onFault } = this.tools;
    const follower = new SessionFollower(
      connection,
      {
        sessionId: this.id,
        windowBytes: windowBytes(),
        sha256,
        later,
        onChange: () => this.settled(),
        onFault,
        onLoad: () => {
          this.loaded.fire();
          this.askSoon("detail", "changes", "usage"); // what was skipped may have changed all of it
        },
        onEvents: (events) => this.take(events),
        onOlder: (items, first) => this.older.fire({ items, first }),
      },
      this.kept ?? undefined,
    );
    this.follower = follower;
    follower.durableCursor = this.cursor;
    this.askSoon("detail", "changes", "usage"); // also where following has to be tried again
    await follower.follow(this.kept === null ? null : this.cursor);
  }

  /** The link is gone: keep the view and the cursor for the next one. */
  detach(): void {
    if (this.follower === null) {
      return;
    }
    this.kept = this.follower.view;
    this.cursor = this.follower.durableCursor;
    this.follower.drop();
    this.follower = null;
    this.connection = null;
    this.cameBack = true;
    this.changed.fire();
  }

  async loadOlder(): Promise<boolean> {
    return (await this.follower?.older()) ?? false;
  }

  /** Hold an item, by loading older ones until it is there; false where the session has none of this name. */
  async hold(itemId: string): Promise<boolean> {
    return (await this.follower?.hold(itemId)) ?? this.view?.find(itemId) !== undefined;
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
    this.times.take(events);
    if (events.some(({ type }) => type === "TextErased")) {
      this.follower?.anew(); // items that came of erased events are still held here
    }
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

  /** Somebody looks at it: what its turns took is asked for, where their events were not seen. */
  wantTimes(): void {
    this.askSoon("times");
  }

  private askSoon(...what: readonly Aspect[]): void {
    what.forEach((one) => this.stale.add(one));
    this.askIn(ASK_AFTER_MS);
  }

  private askIn(ms: number): void {
    this.timer ??= this.tools.later(ms, () => {
      this.timer = null;
      void this.askNow();
    });
  }

  /** One question at a time: what became stale meanwhile is asked after it, and so is what was not answered. */
  private async askNow(): Promise<void> {
    const { connection } = this;
    if (connection === null || this.asking === connection) {
      return;
    }
    const wanted = new Set(this.stale);
    this.stale.clear();
    this.asking = connection;
    let next = ASK_AFTER_MS;
    try {
      await this.ask(connection, wanted);
    } catch (error) {
      if (this.connection === connection && !isGone(error)) {
        this.tools.onFault(error);
        wanted.forEach((one) => this.stale.add(one));
        next = ASK_AGAIN_MS;
      }
    }
    if (this.asking !== connection) {
      return;
    }
    this.asking = null;
    if (this.stale.size > 0) {
      this.askIn(next);
    }
  }

  private async ask(connection: Rpc, wanted: ReadonlySet<Aspect>): Promise<void> {
    const sessionId = this.id;
    const [detail, task, changes, usage, trace] = await Promise.all([
      wanted.has("detail") ? connection.call("session/show", { sessionId }) : null,
      wanted.has("detail") ? connection.call("task/show", { sessionId }) : null,
      wanted.has("changes") ? connection.call("change/list", { sessionId }) : null,
      wanted.has("usage") ? connection.call("usage/show", { sessionId, turns: TURNS_TOLD, requests: 1 }) : null,
      wanted.has("times") ? connection.call("trace/show", { sessionId, turns: TURNS_TRACED }) : null,
    ]);
    if (this.connection !== connection) {
      return;
    }
    if (usage !== null) {
      this.times.takeCosts(usage);
    }
    if (trace !== null) {
      this.times.takeTrace(trace);
    }
    this.beside = {
      detail: detail ?? this.beside.detail,
      changes: changes?.changes ?? this.beside.changes,
      usage: usage?.total ?? this.beside.usage,
      since: task === null ? this.beside.since : task.since,
      contextTokens: usage?.requests.at(-1)?.inputTokens ?? this.beside.contextTokens,
      turns: this.times.facts,
    };
    this.changed.fire();
  }

  dispose(): void {
    this.timer?.dispose();
    this.follower?.stop().catch(() => undefined);
    this.connection = null;
    for (const emitter of [this.loaded, this.happened, this.older, this.changed, this.synced]) {
      emitter.dispose();
    }
  }
}

/** Whether it says that there is no such session (any more). */
export function isGone(error: unknown): boolean {
  return error instanceof RpcError && error.data?.code === GONE;
}
