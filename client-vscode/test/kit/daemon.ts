/**
 * A small daemon at the other end of real JSON-RPC streams.
 *
 * Purpose: sessions with a log and a view, followers with cursors, and every way in which a link misbehaves, by a seed.
 * Invariant: what it has told is what its views hold; while `calm` it is a faultless daemon.
 * Must never: stand in for the client's own code.
 */

import { PassThrough } from "node:stream";
import { ErrorCodes, ResponseError, StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import type { MessageConnection } from "vscode-jsonrpc/node";
import type { SessionEvents, SubscribeParams, SubscribeResult, WireEvent } from "../../../protocol/typescript/wire.ts";
import type { Line } from "../../src/common/link.ts";
import { View } from "../../src/common/reducer.ts";
import type { ViewOp } from "../../src/common/reducer.ts";
import { Connection } from "../../src/node/connection.ts";
import { sha256 } from "../../src/node/digest.ts";

/** Numbers in [0, 1) that are the same for the same seed. */
export function dice(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export const turnOver = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** So many starts in succession may be spoilt; a window takes one more for a fault of the daemon, and follows no longer. */
const SPOILT_STARTS = 2;

class Stored {
  readonly log: WireEvent[] = [];
  view = new View(sha256);
  /** Whether what it sends can be compared with what it holds. */
  tellsDigest = true;
  /** Followers that began from a snapshot since one was surely proven. */
  starts = 0;

  title: string;

  constructor(readonly id: string) {
    this.title = id;
  }

  tell(ops: readonly ViewOp[]): void {
    const seq = this.log.length + 1;
    this.log.push({ stream: `session/${this.id}`, epoch: 1, seq, at: 0, type: "TurnStarted", ops });
    this.view.apply(seq, ops);
  }

  /** Take an item out of the record for good: the log tells that, and the view is made of what is left. */
  erase(id: string): void {
    const left = this.view.items().filter((item) => item.id !== id);
    const seq = this.log.length + 1;
    const ops: readonly ViewOp[] = [{ op: "upsert", item: "erasure/1", kind: "erasure", fields: { events: 1 } }];
    this.view = new View(sha256);
    this.view.load(left, seq - 1);
    this.view.apply(seq, ops);
    this.log.push({ stream: `session/${this.id}`, epoch: 1, seq, at: 0, type: "TextErased", ops });
  }
}

const rowOf = ({ id, title, log }: Stored): object => ({ sessionId: id, root: "/w", title, phase: "running", updatedAt: log.length });

interface Follower {
  readonly name: string;
  readonly session: Stored;
  seq: number;
  /** Until it is proven nothing that it is sent gets lost, late, damaged or doubled. */
  spared: boolean;
}

export class SmallDaemon {
  readonly sessions = new Map<string, Stored>();
  calm = false;
  /** How often each fault happened. */
  readonly faults = new Map<string, number>();
  private readonly wires = new Set<Wire>();
  private names = 0;

  constructor(readonly roll: () => number) {}

  session(id: string): Stored {
    const made = this.sessions.get(id) ?? new Stored(id);
    this.sessions.set(id, made);
    return made;
  }

  name(): string {
    this.names += 1;
    return `sub-${this.names}`;
  }

  /** Whether a fault happens now, of which one in `of` does. */
  strikes(fault: string, of: number): boolean {
    const hit = !this.calm && this.roll() * of < 1;
    if (hit) {
      this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1);
    }
    return hit;
  }

  /** Open a line to it, as a window does. Raises now and then. */
  async open(): Promise<Line> {
    if (this.strikes("no start", 4)) {
      throw new Error("the program ended");
    }
    const [up, down] = [new PassThrough(), new PassThrough()];
    const wire = new Wire(this, up, down);
    this.wires.add(wire);
    const rpc = await Connection.open(down, up, { name: "test", version: "0" });
    const end = (): void => {
      void rpc.close();
      wire.cut();
      this.wires.delete(wire);
    };
    return { rpc, closed: rpc.closed, end };
  }

  /** Every line is gone at once, as with the daemon. */
  die(): void {
    for (const wire of this.wires) {
      wire.cut();
    }
    this.wires.clear();
  }

  /** Send what waits to be sent. */
  pump(): void {
    for (const wire of this.wires) {
      wire.pump();
    }
  }
}

class Wire {
  private readonly wire: MessageConnection;
  private readonly followers = new Map<string, Follower>();
  private held: SessionEvents | null = null;
  private isCut = false;

  constructor(
    private readonly daemon: SmallDaemon,
    private readonly input: PassThrough,
    private readonly output: PassThrough,
  ) {
    this.wire = createMessageConnection(new StreamMessageReader(input), new StreamMessageWriter(output));
    this.wire.onRequest((method: string, params: unknown) => this.answer(method, params as Record<string, unknown>));
    this.wire.listen();
  }

  cut(): void {
    if (!this.isCut) {
      this.isCut = true;
      this.wire.dispose();
      this.input.destroy();
      this.output.destroy();
    }
  }

  private async answer(method: string, params: Record<string, unknown>): Promise<unknown> {
    if (method === "initialize" || method === "shutdown") {
      return {};
    }
    const reply = this.reply(method, params); // as it stands now; the answer may be late
    for (let wait = Math.floor(this.daemon.calm ? 0 : this.daemon.roll() * 6); wait > 0; wait -= 1) {
      await turnOver();
    }
    if (this.daemon.strikes(`${method} fails`, 12)) {
      throw new ResponseError(ErrorCodes.InternalError, "not now", { code: "not_saved", hint: "Try again." });
    }
    return reply;
  }

  private reply(method: string, params: Record<string, unknown>): unknown {
    const session = this.daemon.sessions.get(String(params["sessionId"]));
    switch (method) {
      case "session/list":
        return { sessions: [...this.daemon.sessions.values()].map(rowOf) };
      case "session/item/list":
        return { items: session?.view.items().slice(0, Number(params["limit"])) ?? [], itemsBefore: 0 };
      case "session/subscribe":
        return this.subscribe(session, params as unknown as SubscribeParams);
      case "session/unsubscribe":
        this.followers.delete(String(params["subscriptionId"]));
        return {};
      case "session/show":
        return { info: { sessionId: session?.id }, goalRevision: session?.log.length };
      case "task/show":
        return { since: null };
      case "trace/show":
        return { turns: [] };
      case "change/list":
        return { changes: [] };
      case "usage/show":
        return { total: null, byTurn: [], requests: [] };
      default:
        return {};
    }
  }

  private subscribe(session: Stored | undefined, { after }: SubscribeParams): SubscribeResult {
    if (session === undefined) {
      throw new ResponseError(-32050, "there is no such session", { code: "session.unknown", hint: "" });
    }
    const name = this.daemon.name();
    const seq = typeof after === "string" ? Number(after.slice(1)) : session.log.length;
    const snapshot = typeof after === "string" ? null : { items: session.view.items(), itemsBefore: 0 };
    session.starts += snapshot === null ? 0 : 1;
    this.followers.set(name, { name, session, seq, spared: session.starts > SPOILT_STARTS });
    return { subscriptionId: name, mode: snapshot === null ? "replay" : "snapshot", cursor: `c${seq}`, seq, snapshot };
  }

  pump(): void {
    for (const follower of this.followers.values()) {
      const { log, view } = follower.session;
      const most = this.daemon.calm ? log.length : 1 + Math.floor(this.daemon.roll() * 4);
      const events = log.slice(follower.seq, follower.seq + most);
      const [from, to] = [follower.seq, follower.seq + events.length];
      const atHead = to === log.length;
      if (events.length === 0 && !this.daemon.calm) {
        continue;
      }
      const proven = atHead && follower.session.tellsDigest && !this.daemon.strikes("no digest yet", 3);
      const batch: SessionEvents = {
        subscriptionId: follower.name,
        after: `c${from}`,
        last: `c${to}`,
        durable: this.daemon.roll() < 0.5 ? `c${to}` : null,
        events,
        ...(proven ? { viewDigest: view.digest(), itemsFrom: 0, caughtUp: true } : {}),
      };
      follower.seq = to;
      if (!follower.spared) {
        this.send(batch);
        continue;
      }
      this.notify(batch);
      if (proven) {
        follower.spared = false;
        follower.session.starts = 0;
      }
    }
  }

  /** Some batches are lost, come twice, late, or damaged. */
  private send(batch: SessionEvents): void {
    const late = this.held;
    this.held = null;
    if (this.daemon.strikes("held back", 9)) {
      this.held = batch;
    } else if (!this.daemon.strikes("lost", 14)) {
      this.notify(this.daemon.strikes("another digest", 20) ? { ...batch, viewDigest: "0".repeat(64) } : batch);
      if (this.daemon.strikes("twice", 14)) {
        this.notify(batch);
      }
    }
    if (late !== null) {
      this.notify(late);
    }
  }

  private notify(batch: SessionEvents): void {
    if (!this.isCut) {
      this.wire.sendNotification("session/events", batch).catch(() => undefined);
    }
  }
}
