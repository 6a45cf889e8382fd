/** The follower over a real JSON-RPC connection, with a small daemon of its own at the other end. */

import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "vitest";
import { StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import type { MessageConnection } from "vscode-jsonrpc/node";
import type { ItemListParams, SessionEvents, SubscribeParams, SubscribeResult, WireEvent } from "../../protocol/typescript/wire.ts";
import { SessionFollower } from "../src/common/follower.ts";
import { PAGE_ITEMS, View } from "../src/common/reducer.ts";
import type { ViewOp } from "../src/common/reducer.ts";
import { Connection } from "../src/node/connection.ts";
import { sha256 } from "../src/node/digest.ts";

/** A daemon of one session: it keeps a view, sends what it is told to, and remembers what it was asked. */
class SmallDaemon {
  readonly view = new View(sha256);
  /** Where its snapshots begin. */
  itemsBefore = 0;
  readonly asked: [string, unknown][] = [];
  private readonly wire: MessageConnection;
  private readonly waiting: [string, () => void][] = [];
  private subscriptions = 0;
  private last = "c0";

  constructor(input: PassThrough, output: PassThrough) {
    this.wire = createMessageConnection(new StreamMessageReader(input), new StreamMessageWriter(output));
    this.wire.onRequest((method: string, params: unknown) => this.answer(method, params));
    this.wire.listen();
  }

  private answer(method: string, params: unknown): unknown {
    this.asked.push([method, params]);
    const ready = this.waiting.findIndex(([name]) => name === method);
    if (ready >= 0) {
      setImmediate(this.waiting.splice(ready, 1)[0]![1]);
    }
    if (method === "session/item/list") {
      const { before, limit } = params as ItemListParams;
      const from = before - (limit ?? 0);
      return { items: this.view.items().slice(from, before), itemsBefore: from };
    }
    return method === "session/subscribe" ? this.subscribe(params as SubscribeParams) : {};
  }

  private subscribe(params: SubscribeParams): SubscribeResult {
    this.subscriptions += 1;
    this.last = "c0";
    const items = this.view.items().slice(this.itemsBefore);
    const fresh = typeof params.after !== "string";
    return {
      subscriptionId: `s${this.subscriptions}`,
      mode: fresh ? "snapshot" : "replay",
      cursor: "c0",
      seq: fresh ? this.view.watermark : 0,
      snapshot: fresh ? { items, itemsBefore: this.itemsBefore } : null,
    };
  }

  /** Resolves after the next request of this method was answered. */
  next(method: string): Promise<void> {
    return new Promise((resolve) => this.waiting.push([method, resolve]));
  }

  send(seq: number, ops: readonly ViewOp[], extra: Partial<SessionEvents> = {}): Promise<void> {
    const event: WireEvent = { stream: "session/1", epoch: 1, seq, at: 0, type: "X", ops: ops };
    const batch = { subscriptionId: `s${this.subscriptions}`, after: this.last, last: `c${seq}`, durable: `c${seq}`, events: [event], ...extra };
    this.last = batch.last;
    return this.wire.sendNotification("session/events", batch);
  }

  close(): void {
    this.wire.dispose();
  }
}

interface Scene {
  readonly daemon: SmallDaemon;
  readonly follower: SessionFollower;
  readonly changed: () => Promise<void>;
  readonly end: () => Promise<void>;
}

async function open(): Promise<Scene> {
  const [up, down] = [new PassThrough(), new PassThrough()];
  const daemon = new SmallDaemon(up, down);
  const connection = await Connection.open(down, up, { name: "test", version: "0" });
  let wake: (() => void)[] = [];
  const follower = new SessionFollower(connection, {
    sessionId: "1",
    windowBytes: 1 << 20,
    sha256,
    onChange: () => {
      const woken = wake;
      wake = [];
      woken.forEach((run) => run());
    },
    onFault: (error) => assert.fail(String(error)),
    later: () => assert.fail("nothing is put off here"),
  });
  const end = async (): Promise<void> => {
    await follower.stop(); // its reply comes after the replies to all acks
    daemon.close();
    up.destroy();
    down.destroy();
  };
  return { daemon, follower, changed: () => new Promise((resolve) => wake.push(resolve)), end };
}

const HELLO: ViewOp = { op: "upsert", item: "answer/1", kind: "message.assistant", fields: { text: "He", state: "streaming" } };

test("streamed text is reduced, acknowledged and in sync only on an equal digest", async () => {
  const { daemon, follower, changed, end } = await open();
  await follower.start();
  daemon.view.apply(1, [HELLO]);
  let seen = changed();
  await daemon.send(1, [HELLO]);
  await seen;
  assert.equal(follower.inSync, false);
  const more: ViewOp = { op: "append", item: "answer/1", field: "text", offset: 2, text: "llo 𝒳" };
  daemon.view.apply(2, [more]);
  seen = changed();
  await daemon.send(2, [more], { caughtUp: true, viewDigest: daemon.view.digest() });
  await seen;
  assert.equal(follower.inSync, true);
  assert.equal(follower.durableCursor, "c2");
  assert.deepEqual(follower.view.find("answer/1")?.fields, { text: "Hello 𝒳", state: "streaming" });
  await end();
  const acks = daemon.asked.filter(([method]) => method === "session/ack").map(([, params]) => params);
  assert.deepEqual(acks, [
    { subscriptionId: "s1", seq: 1 },
    { subscriptionId: "s1", seq: 2 },
  ]);
});

test("the newest items alone, older ones as wanted, and nothing that happens meanwhile is lost", async () => {
  const { daemon, follower, changed, end } = await open();
  const note = (at: number, text: string): ViewOp => ({ op: "upsert", item: `n${at}`, kind: "message.user", fields: { text, state: "delivered" } });
  Array.from({ length: 2 * PAGE_ITEMS + 9 }, (_, at) => daemon.view.apply(at + 1, [note(at, "x")]));
  daemon.itemsBefore = 2 * PAGE_ITEMS;
  await follower.start();
  assert.deepEqual([follower.view.first, follower.view.size], [2 * PAGE_ITEMS, 9]);
  const seq = daemon.view.watermark + 1;
  const listed = daemon.next("session/item/list");
  const older = follower.older();
  const twice = follower.older(); // under way already
  await listed; // the page is on its way, read before this change of it, which comes first
  const ops = [note(3, "changed"), note(2 * PAGE_ITEMS, "changed")];
  daemon.view.apply(seq, ops);
  let seen = changed();
  await daemon.send(seq, ops, { viewDigest: daemon.view.digest(), itemsFrom: 0 });
  assert.deepEqual(await Promise.all([older, twice]), [true, true]);
  while (!follower.inSync) {
    await seen;
    seen = changed();
  }
  assert.deepEqual(follower.view.items(), daemon.view.items());
  assert.equal(follower.inSync, true);
  assert.equal(await follower.older(), false);
  await end();
  const asked = daemon.asked.find(([method]) => method === "session/widen")?.[1];
  assert.deepEqual(asked, { subscriptionId: "s1", itemsFrom: 0 });
});

test("an item that is far back is held after some steps, one that is nowhere is not, and each page is asked for once", async () => {
  const { daemon, follower, end } = await open();
  const note = (at: number): ViewOp => ({ op: "upsert", item: `n${at}`, kind: "message.user", fields: { text: "x", state: "delivered" } });
  Array.from({ length: 10 * PAGE_ITEMS }, (_, at) => daemon.view.apply(at + 1, [note(at)]));
  daemon.itemsBefore = 9 * PAGE_ITEMS;
  await follower.start();
  assert.deepEqual(await Promise.all([follower.hold("n600"), follower.older()]), [true, true]);
  assert.equal(follower.view.first, 3 * PAGE_ITEMS); // no further back than it has to be
  assert.equal(await follower.hold("n5000"), false);
  assert.deepEqual(follower.view.items(), daemon.view.items());
  assert.equal(daemon.asked.filter(([method]) => method === "session/item/list").length, 3);
  await end();
});

test("a session that is deleted ends the following with its reason", async () => {
  const { daemon, follower, changed, end } = await open();
  await follower.start();
  daemon.view.apply(1, [HELLO]);
  let seen = changed();
  await daemon.send(1, [HELLO], { viewDigest: daemon.view.digest() });
  await seen;
  const left = daemon.next("session/unsubscribe");
  seen = changed();
  await daemon.send(2, [], { events: [], durable: null, ended: "the user deleted it" });
  await seen;
  await left;
  assert.equal(follower.ended, "the user deleted it");
  assert.deepEqual([follower.inSync, follower.durableCursor], [false, null]);
  assert.deepEqual(follower.view.items(), daemon.view.items());
  assert.equal(daemon.asked.filter(([method]) => method === "session/subscribe").length, 1);
  await end();
});

for (const [name, ops, more] of [
  ["a gap", [{ op: "append", item: "nowhere", field: "text", offset: 9, text: "x" }], {}],
  ["another digest", [HELLO], { viewDigest: "0".repeat(64) }],
  ["a log that lost its end", [HELLO], { resync: true }],
  ["a batch that follows another one", [HELLO], { after: "c9" }],
  ["what can't be hashed", [{ ...HELLO, fields: { text: "\uD800" } }], { viewDigest: "0".repeat(64) }],
] as const) {
  test(`${name} makes the follower begin anew from a snapshot`, async () => {
    const { daemon, follower, changed, end } = await open();
    await follower.start();
    daemon.view.apply(1, [{ ...HELLO, fields: { text: "whole", state: "done" } }]);
    const left = daemon.next("session/unsubscribe");
    await daemon.send(1, ops, more);
    const renewed = daemon.next("session/subscribe");
    await left;
    const seen = changed();
    await renewed;
    await seen;
    assert.deepEqual(follower.view.items(), daemon.view.items());
    const last = daemon.asked.filter(([method]) => method === "session/subscribe").at(-1)?.[1] as SubscribeParams;
    assert.equal(last.after, null);
    await end();
  });
}
