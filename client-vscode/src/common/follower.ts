/**
 * Follows one session: subscribes, reduces, acknowledges, and begins anew when client and daemon disagree.
 *
 * Purpose: a view that equals the daemon's, from any cursor, after any loss.
 * Invariant: `inSync` is true only when the last digest the daemon sent equals the view's own.
 * Must never: show a view with a hole, or keep a cursor that a power loss could take back.
 */

import type { SessionEvents } from "../../../protocol/typescript/wire.ts";
import { View, ViewGapError } from "./reducer.ts";
import type { Sha256 } from "./reducer.ts";
import type { Rpc } from "./rpc.ts";

export interface FollowerOptions {
  readonly sessionId: string;
  readonly windowBytes: number;
  readonly sha256: Sha256;
  readonly onChange: () => void;
  readonly onFault: (error: unknown) => void;
}

const PAGE_LIMIT = 500;
/** A view that still differs after this many fresh starts is a fault to show, not to repeat for ever. */
const RESYNCS_MAX = 3;

export class SessionFollower {
  readonly view: View;
  inSync = false;
  /** The last cursor that a power loss keeps. */
  durableCursor: string | null = null;
  private readonly rpc: Rpc;
  private readonly options: FollowerOptions;
  private readonly unlisten: () => void;
  private subscriptionId: string | null = null;
  private early: SessionEvents[] | null = null;
  private resyncs = 0;
  private stopped = false;

  constructor(rpc: Rpc, options: FollowerOptions) {
    this.rpc = rpc;
    this.options = options;
    this.view = new View(options.sha256);
    this.unlisten = rpc.onEvents((batch) => this.take(batch));
  }

  /** Subscribe; after a lost connection from the last durable cursor, if the view was kept. */
  async start(after: string | null = null): Promise<void> {
    const { sessionId, windowBytes } = this.options;
    const waiting: SessionEvents[] = [];
    this.early = waiting; // batches that overtake the reply's handling
    try {
      const reply = await this.rpc.call("session/subscribe", { sessionId, after, windowBytes });
      if (reply.mode === "snapshot") {
        await this.loadSnapshot(reply.snapshot?.items ?? [], reply.snapshot?.itemsBefore ?? 0);
      }
      this.subscriptionId = reply.subscriptionId;
    } finally {
      this.early = null;
    }
    this.options.onChange();
    for (const batch of waiting) {
      this.take(batch);
    }
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.unlisten();
    await this.leave();
  }

  private async loadSnapshot(tail: Parameters<View["load"]>[0], before: number): Promise<void> {
    let items = [...tail];
    let missing = before;
    while (missing > 0) {
      const { sessionId } = this.options;
      const page = await this.rpc.call("session/item/list", { sessionId, before: missing, limit: PAGE_LIMIT });
      if (page.items.length === 0) {
        break;
      }
      items = [...page.items, ...items];
      missing = page.itemsBefore;
    }
    this.view.load(items, 0);
  }

  private take(batch: SessionEvents): void {
    if (this.early !== null) {
      this.early.push(batch);
      return;
    }
    if (this.stopped || batch.subscriptionId !== this.subscriptionId) {
      return;
    }
    try {
      for (const event of batch.events) {
        this.view.applyEvent(event);
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

  private settle(batch: SessionEvents): void {
    this.durableCursor = batch.durable ?? this.durableCursor;
    const last = batch.events.at(-1);
    if (last !== undefined) {
      this.inSync = false;
      this.rpc.call("session/ack", { subscriptionId: batch.subscriptionId, seq: last.seq }).catch(this.options.onFault);
    }
    if (typeof batch.viewDigest === "string") {
      this.inSync = batch.viewDigest === this.view.digest();
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
