/** A window's link and sessions over real JSON-RPC, while everything on the way misbehaves. */

import assert from "node:assert/strict";
import { afterEach, test } from "vitest";
import { Link } from "../src/common/link.ts";
import type { LinkState } from "../src/common/panel.ts";
import type { ViewOp } from "../src/common/reducer.ts";
import { Sessions } from "../src/common/sessions.ts";
import type { Remembered } from "../src/common/sessions.ts";
import { sha256 } from "../src/node/digest.ts";
import { later } from "./kit/clock.ts";
import { SmallDaemon, dice, turnOver } from "./kit/daemon.ts";

const SEEDS = 60;
const STEPS = 60;
const failed = (error: unknown): LinkState => ({ kind: "failed", words: String(error), actions: [] });

class World {
  readonly daemon: SmallDaemon;
  readonly link: Link;
  readonly sessions: Sessions;
  readonly told: string[] = [];
  remembered: Remembered | undefined;
  private words = 0;

  constructor(seed: number, remembered?: Remembered) {
    this.daemon = new SmallDaemon(dice(seed));
    this.daemon.session("1");
    this.daemon.session("2");
    this.remembered = remembered;
    this.link = new Link({ open: () => this.daemon.open(), later, explain: failed, log: () => undefined });
    const window = { roots: () => ["/w"], recall: () => this.remembered, remember: (open: Remembered) => void (this.remembered = open) };
    const onFault = (error: unknown): void => void this.told.push(String(error));
    this.sessions = new Sessions(this.link, window, { sha256, later, windowBytes: () => 1 << 20, onFault });
    this.link.wanted = () => this.sessions.wantsLink;
  }

  /** Something happens in a session: a new item, more text of one, another state. */
  happen(): void {
    const { roll } = this.daemon;
    const session = this.daemon.session(roll() < 0.7 ? "1" : "2");
    const last = session.view.items().at(-1);
    const text = `word ${(this.words += 1)} `;
    const held = last?.fields["text"];
    const ops: ViewOp[] =
      typeof held === "string" && last !== undefined && roll() < 0.7
        ? [{ op: "append", item: last.id, field: "text", offset: held.length, text }]
        : [{ op: "upsert", item: `answer/${session.log.length}`, kind: "message.assistant", fields: { text, state: "streaming" } }];
    session.tell(ops);
  }

  async turns(count: number): Promise<void> {
    for (let at = 0; at < count; at += 1) {
      this.daemon.pump();
      await turnOver();
    }
  }

  /** What each followed session shows, beside what the daemon has. */
  standing(): readonly (readonly [string, boolean, number, number, number | undefined, number])[] {
    return this.sessions.all.map((one) => {
      const { log } = this.daemon.session(one.id);
      return [one.id, one.inSync, one.view?.watermark ?? -1, log.length, one.beside.detail?.goalRevision, log.length] as const;
    });
  }

  /** Faultless from now on: everything is right in bounded time, without anybody doing anything. */
  async settles(): Promise<void> {
    this.daemon.calm = true;
    const end = Date.now() + 5_000;
    const right = (): boolean =>
      this.link.state.kind === "ready" &&
      this.standing().every(([, synced, seq, head, detail, length]) => synced && seq === head && detail === length);
    while (!right()) {
      assert.ok(Date.now() < end, `${this.link.state.kind} ${JSON.stringify(this.standing())} ${this.told.slice(-5).join("; ")}`);
      await this.turns(3);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    for (const one of this.sessions.all) {
      assert.deepEqual(one.view?.items(), this.daemon.session(one.id).view.items());
    }
  }

  end(): void {
    this.sessions.dispose();
    this.link.dispose();
    this.daemon.die();
  }
}

let world: World | null = null;
afterEach(() => world?.end());

test.each(Array.from({ length: SEEDS }, (_, at) => at + 1))(
  "seed %i: whatever was lost, late, twice or refused, the window ends right",
  async (seed) => {
    world = new World(seed);
    const { daemon, sessions, link } = world;
    const { roll } = daemon;
    for (let at = 0; at < STEPS; at += 1) {
      const chance = roll();
      if (chance < 0.1) {
        void sessions.show(roll() < 0.5 ? "1" : "2").catch(() => undefined);
      } else if (chance < 0.16) {
        daemon.die();
      } else if (chance < 0.22) {
        void sessions.refresh().catch(() => undefined);
      } else if (chance < 0.26) {
        void link.retry();
      } else {
        world.happen();
      }
      await world.turns(1 + Math.floor(roll() * 4));
    }
    daemon.calm = true;
    await sessions.show("1");
    await sessions.show("2");
    await world.settles();
    assert.deepEqual([...sessions.all.map(({ id }) => id)].sort(), ["1", "2"]);
    assert.equal(sessions.current?.id, "2");
    assert.equal(
      sessions.all.find((one) => one.fault !== null),
      undefined,
    );
  },
);

test("the faults of the seeds really happen", async () => {
  const seen = new Map<string, number>();
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    world = new World(seed);
    world.daemon.calm = true;
    await world.sessions.show("1");
    world.daemon.calm = false;
    for (let at = 0; at < STEPS * 2; at += 1) {
      world.happen();
      await world.turns(2);
      if (at % 20 === 0) {
        world.daemon.die();
        await new Promise((resolve) => setTimeout(resolve, 4));
      }
    }
    world.daemon.faults.forEach((count, fault) => seen.set(fault, (seen.get(fault) ?? 0) + count));
    world.end();
  }
  for (const fault of ["lost", "twice", "held back", "another digest", "no digest yet", "no start", "session/subscribe fails"]) {
    assert.ok((seen.get(fault) ?? 0) > 0, fault);
  }
});

test("what was asked when the link was lost is refused, not left without an answer", async () => {
  world = new World(5);
  world.daemon.calm = true;
  const rpc = await world.link.connect();
  world.daemon.calm = false;
  const asked = rpc.call("session/show", { sessionId: "1" });
  world.daemon.die();
  await assert.rejects(asked);
});

/** Let turns go by until it is so. */
async function until(of: World, look: () => boolean): Promise<void> {
  const end = Date.now() + 5_000;
  while (!look()) {
    assert.ok(Date.now() < end);
    await of.turns(3);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

test("a window that joins a session at rest knows where it stands", async () => {
  world = new World(1);
  world.daemon.calm = true;
  Array.from({ length: 7 }, () => world?.happen());
  await world.sessions.show("1");
  await world.settles();
  assert.equal(world.sessions.current?.view?.watermark, world.daemon.session("1").log.length);
});

test("what was erased is held by no window, also where no digest tells that it is", async () => {
  world = new World(6);
  const session = world.daemon.session("1");
  world.daemon.calm = true;
  session.tell([{ op: "upsert", item: "message/1", kind: "message.user", fields: { text: "the secret" } }]);
  await world.sessions.show("1");
  await world.settles();
  session.tellsDigest = false;
  session.erase("message/1");
  await until(world, () => world?.sessions.current?.view?.find("message/1") === undefined);
  assert.equal(world.sessions.current?.view?.items().at(-1)?.id, "erasure/1");
});

test("what was open comes back when the daemon was away at the start", async () => {
  world = new World(3, { current: "1", followed: ["1", "2"] });
  const { daemon, sessions, link } = world;
  daemon.calm = true;
  const open = daemon.open.bind(daemon);
  daemon.open = () => Promise.reject(new Error("not yet"));
  await assert.rejects(sessions.resume(), /not yet/);
  assert.equal(sessions.wantsLink, true);
  assert.deepEqual(world.remembered, { current: "1", followed: ["1", "2"] });
  daemon.open = open;
  await link.retry();
  await world.settles();
  while (sessions.current === null) {
    await world.turns(1);
  }
  assert.equal(sessions.current.id, "1");
  assert.deepEqual(world.remembered, { current: "1", followed: ["1", "2"] });
});

test("of two sessions that are asked for, the last is shown, however late the first comes", async () => {
  world = new World(4);
  world.daemon.calm = true;
  const first = world.sessions.show("1");
  const second = world.sessions.show(null);
  await Promise.all([first, second]);
  assert.equal(world.sessions.current, null);
});
