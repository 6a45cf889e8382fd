/**
 * Follows one session: subscribes, reduces, acknowledges, and begins anew when client and daemon disagree.
 *
 * Purpose: a view that equals the daemon's, from any cursor, after any loss.
 * Invariant: the view holds the newest items, from `view.first` on; `inSync` is true only when the last digest the daemon sent equals the view's own.
 * Must never: show a view with a hole, or keep a cursor that a power loss could take back.
 */

import type { SessionEvents, ViewItem, WireEvent } from "../../../protocol/typescript/wire.ts";
import { PAGE_ITEMS, View, ViewGapError } from "./reducer.ts";
import type { Sha256 } from "./reducer.ts";
import type { Rpc } from "./rpc.ts";

export interface FollowerOptions {
  readonly sessionId: string;
  readonly windowBytes: number;
  readonly sha256: Sha256;
  readonly onChange: () => void;
  readonly onFault: (error: unknown) => void;
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

export class SessionFollower {
  readonly view: View;
  inSync = false;
  /** Why the session is gone, in words, once it is: nothing follows any more, and the view stays as it was. */
  ended: string | null = null;
  /** The last cursor that a power loss keeps. */
  durableCursor: string | null = null;
  private readonly rpc: Rpc;
  private readonly options: FollowerOptions;
  private readonly unlisten: () => void;
  private subscriptionId: string | null = null;
  private early: SessionEvents[] | null = null;
  private resyncs = 0;
  private stopped = false;

  /** With `view`, one that a follower before this one kept, `start` may go on from its durable cursor. */
  constructor(rpc: Rpc, options: FollowerOptions, view?: View) {
    this.rpc = rpc;
    this.options = options;
    this.view = view ?? new View(options.sha256);
    this.unlisten = rpc.onEvents((batch) => this.take(batch));
  }

  /** Subscribe; after a lost connection from the last durable cursor, if the view was kept. */
  async start(after: string | null = null): Promise<void> {
    const { sessionId, windowBytes } = this.options;
    const waiting: SessionEvents[] = [];
    this.early = waiting; // batches that overtake the reply's handling
    try {
      const itemsFrom = this.view.first;
      const reply = await this.rpc.call("session/subscribe", { sessionId, after, windowBytes, newestOnly: true, itemsFrom });
      if (reply.mode === "snapshot") {
        this.view.load(reply.snapshot?.items ?? [], 0, reply.snapshot?.itemsBefore ?? 0);
        this.options.onLoad?.();
      }
      this.subscriptionId = reply.subscriptionId;
    } finally {
      this.early = null;
    }
    this.options.onChange();
    this.takeAll(waiting);
  }

  /** Take in some of the items before those that are held; false when all are, or when this is under way already. */
  async older(): Promise<boolean> {
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
    this.stopped = true;
    this.unlisten();
    await this.leave();
  }

  /** The connection is gone: listen no more; the view stays for the next follower. */
  drop(): void {
    this.stopped = true;
    this.inSync = false;
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
      this.durableCursor = null;
      this.resync(new Error("the log lost what was shown last"));
      return;
    }
    try {
      const applied = batch.events.filter((event) => this.view.applyEvent(event));
      if (applied.length > 0) {
        this.options.onEvents?.(applied);
      }
    } catch (error) {
      if (!(error instanceof ViewGapError)) {
        throw error;
      }
      this.resync(error);
      return;
    }
    this.settle(batch);
  }

  private end(reason: string): void {
    this.ended = reason;
    this.inSync = false;
    this.durableCursor = null;
    this.stop().catch(this.options.onFault);
    this.options.onChange();
  }

  private settle(batch: SessionEvents): void {
    this.durableCursor = batch.durable ?? this.durableCursor;
    const last = batch.events.at(-1);
    if (last !== undefined) {
      this.inSync = false;
      this.rpc.call("session/ack", { subscriptionId: batch.subscriptionId, seq: last.seq }).catch(this.options.onFault);
    }
    if (typeof batch.viewDigest === "string") {
      this.inSync = batch.viewDigest === this.view.digest(batch.itemsFrom ?? undefined);
      if (!this.inSync) {
        this.resync(new Error("the view differs from the daemon's"));
        return;
      }
      this.resyncs = 0;
    }
    this.options.onChange();
  }

  private resync(cause: Error): void {
    this.inSync = false;
    this.resyncs += 1;
    if (this.resyncs > RESYNCS_MAX) {
      this.options.onFault(cause);
      return;
    }
    this.leave()
      .then(() => this.start(null))
      .catch(this.options.onFault);
  }

  private async leave(): Promise<void> {
    const subscriptionId = this.subscriptionId;
    this.subscriptionId = null;
    if (subscriptionId !== null) {
      await this.rpc.call("session/unsubscribe", { subscriptionId });
    }
  }
}
