/**
 * Follows one session: subscribes, reduces, acknowledges, and begins anew when client and daemon disagree.
 *
 * Purpose: a view that equals the daemon's, from any cursor, after any loss.
 * Invariant: the view holds the newest items, from `view.first` on; `inSync` is true only when the last digest the daemon sent equals the view's own.
 * Must never: show a view with a hole, keep a cursor that a power loss could take back, or stand still after a request that failed.
 */

import type { SessionEvents, ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";
import { PAGE_ITEMS, View, ViewGapError } from "./reducer.ts";
import type { Sha256 } from "./reducer.ts";
import type { Disposable, Later } from "./emitter.ts";
import { GONE, RpcError } from "./rpc.ts";
import type { Rpc } from "./rpc.ts";

export interface FollowerOptions {
  readonly sessionId: string;
  readonly windowBytes: number;
  readonly sha256: Sha256;
  readonly onChange: () => void;
  readonly onFault: (error: unknown) => void;
  readonly later: Later;
  /** The view began anew: everything that is held. */
  readonly onLoad?: () => void;
  /** Events that were applied, in order. */
  readonly onEvents?: (events: readonly WireEvent[]) => void;
  /** Older items were put before those that were held. */
  readonly onOlder?: (items: readonly ViewItem[], first: number) => void;
}

/** Items that `older` takes in at once. */
const OLDER_ITEMS = 3 * PAGE_ITEMS;
/** A view that still differs after this many fresh starts is a fault to show, not to repeat for ever. */
const RESYNCS_MAX = 3;
/** So long after a fresh start that failed the next one is tried, while the connection lives. */
const RENEW_AFTER_MS = 1_000;

export class SessionFollower {
  readonly view: View;
  inSync = false;
  /** Why the session is gone, in words, once it is: nothing follows any more, and the view stays as it was. */
  ended: string | null = null;
  /** Why the view can't be made equal to the daemon's, once that was given up; it is followed no more. */
  fault: string | null = null;
  /** The last cursor that a power loss keeps. */
  durableCursor: string | null = null;
  private readonly rpc: Rpc;
  private readonly options: FollowerOptions;
  private readonly unlisten: () => void;
  private subscriptionId: string | null = null;
  /** Where what was taken in ends: the next batch begins there. */
  private place = "";
  private renewal: Disposable | null = null;
  private early: SessionEvents[] | null = null;
  private widening: Promise<boolean> | null = null;
  private resyncs = 0;
  private stopped = false;

  /** With `view`, one that a follower before this one kept, `start` may go on from its durable cursor. */
  constructor(rpc: Rpc, options: FollowerOptions, view?: View) {
    this.rpc = rpc;
    this.options = options;
    this.view = view ?? new View(options.sha256);
    this.unlisten = rpc.onEvents((batch) => this.take(batch));
  }

  /** `start`; where it fails it is tried again while the connection lives. Raises what the first try raised. */
  async follow(after: string | null): Promise<void> {
    try {
      await this.start(after);
    } catch (error) {
      this.renewLater(error);
      throw error;
    }
  }

  /** Subscribe; after a lost connection from the last durable cursor, if the view was kept. */
  async start(after: string | null = null): Promise<void> {
    const { sessionId, windowBytes } = this.options;
    const waiting: SessionEvents[] = [];
    this.early = waiting; // batches that overtake the reply's handling
    try {
      const itemsFrom = this.view.first;
      const reply = await this.rpc.call("session/subscribe", { sessionId, after, windowBytes, newestOnly: true, itemsFrom });
      this.subscriptionId = reply.subscriptionId;
      if (this.stopped) {
        await this.leave();
        return;
      }
      this.place = reply.cursor;
      if (reply.mode === "snapshot") {
        this.durableCursor = null;
        this.view.load(reply.snapshot?.items ?? [], reply.seq, reply.snapshot?.itemsBefore ?? 0);
        this.options.onLoad?.();
      }
    } finally {
      this.early = null;
    }
    this.options.onChange();
    this.takeAll(waiting);
  }

  /** Take in some of the items before those that are held; false when all are. Who asks while this is under way gets its end. */
  older(): Promise<boolean> {
    this.widening ??= this.widen().finally(() => (this.widening = null));
    return this.widening;
  }

  /** Hold an item, by taking in older ones until it is there; false where the view has none of this name. */
  async hold(itemId: string): Promise<boolean> {
    while (this.view.find(itemId) === undefined) {
      if (!(await this.older())) {
        return this.view.find(itemId) !== undefined;
      }
    }
    return true;
  }

  private async widen(): Promise<boolean> {
    const { first } = this.view;
    const { subscriptionId } = this;
    if (first === 0 || subscriptionId === null || this.early !== null) {
      return false;
    }
    const begin = Math.max(0, first - OLDER_ITEMS);
    const waiting: SessionEvents[] = [];
    this.early = waiting; // what changes these items from now on is applied when they are there
    try {
      await this.rpc.call("session/widen", { subscriptionId, itemsFrom: begin });
      const { sessionId } = this.options;
      const page = await this.rpc.call("session/item/list", { sessionId, before: first, limit: first - begin });
      this.view.prepend(page.items, begin);
      this.options.onOlder?.(page.items, begin);
    } finally {
      this.early = null;
      this.takeAll(waiting);
    }
    this.options.onChange();
    return true;
  }

  private takeAll(batches: readonly SessionEvents[]): void {
    for (const batch of batches) {
      this.take(batch);
    }
  }

  async stop(): Promise<void> {
    this.drop();
    await this.leave();
  }

  /** The connection is gone: listen no more; the view stays for the next follower. */
  drop(): void {
    this.stopped = true;
    this.inSync = false;
    this.renewal?.dispose();
    this.unlisten();
  }

  private take(batch: SessionEvents): void {
    if (this.early !== null) {
      this.early.push(batch);
      return;
    }
    if (this.stopped || batch.subscriptionId !== this.subscriptionId) {
      return;
    }
    if (typeof batch.ended === "string") {
      this.end(batch.ended);
      return;
    }
    if (batch.resync === true) {
      this.resync(new Error("the log lost what was shown last"));
      return;
    }
    const events = this.reduce(batch);
    if (events === null) {
      return;
    }
    if (events.length > 0) {
      this.options.onEvents?.(events);
    }
    if (batch.events.length > 0) {
      const seq = this.view.watermark;
      this.rpc.call("session/ack", { subscriptionId: batch.subscriptionId, seq }).catch((error: unknown) => {
        if (!this.stopped) {
          this.options.onFault(error);
        }
      });
    }
    this.options.onChange();
  }

  /** What a batch adds to the view, and whether the view is proven then; null where it does not join: the view begins anew. */
  private reduce(batch: SessionEvents): readonly WireEvent[] | null {
    try {
      if (batch.after !== this.place) {
        throw new ViewGapError("a batch does not follow the one before it");
      }
      const applied = batch.events.filter((event) => this.view.applyEvent(event));
      this.place = batch.last;
      this.durableCursor = batch.durable ?? this.durableCursor;
      if (batch.events.length > 0) {
        this.inSync = false;
      }
      if (typeof batch.viewDigest === "string") {
        this.inSync = batch.viewDigest === this.view.digest(batch.itemsFrom ?? undefined);
        if (!this.inSync) {
          throw new ViewGapError("the view differs from the daemon's");
        }
        this.resyncs = 0;
      }
      return applied;
    } catch (error) {
      this.resync(error); // also what can't be hashed: no view stands still over one event
      return null;
    }
  }

  private end(reason: string): void {
    this.ended = reason;
    this.inSync = false;
    this.durableCursor = null;
    this.stop().catch(() => undefined); // there is nothing left to leave
    this.options.onChange();
  }

  /** Begin from a snapshot: what is held is to be held no more, also where the digest does not tell. */
  anew(): void {
    this.inSync = false;
    this.durableCursor = null;
    this.renew().catch((error: unknown) => this.renewLater(error));
  }

  private resync(cause: unknown): void {
    this.inSync = false;
    this.durableCursor = null;
    this.resyncs += 1;
    if (this.resyncs > RESYNCS_MAX) {
      this.fault = cause instanceof Error ? cause.message : String(cause);
      this.options.onFault(cause);
      this.stop().catch(() => undefined); // the connection is gone, and the subscription with it
      this.options.onChange();
      return;
    }
    this.options.onChange();
    this.renew().catch((error: unknown) => this.renewLater(error));
  }

  /** Leave, whether or not the daemon still knows of it, and begin from a snapshot. */
  private async renew(): Promise<void> {
    await this.leave().catch(() => undefined);
    if (!this.stopped) {
      await this.start(null);
    }
  }

  private renewLater(error: unknown): void {
    if (this.stopped) {
      return;
    }
    if (error instanceof RpcError && error.data?.code === GONE) {
      this.end("it was deleted meanwhile");
      return;
    }
    this.options.onFault(error);
    this.renewal = this.options.later(RENEW_AFTER_MS, () => {
      this.renew().catch((again: unknown) => this.renewLater(again));
    });
  }

  private async leave(): Promise<void> {
    const subscriptionId = this.subscriptionId;
    this.subscriptionId = null;
    if (subscriptionId !== null) {
      await this.rpc.call("session/unsubscribe", { subscriptionId });
    }
  }
}
