/** Programs that are no gloveport, and a program that is named anew. */

import assert from "node:assert/strict";
import { expect, test } from "vitest";
import { IDLE, Link } from "../src/common/link.ts";
import type { Line } from "../src/common/link.ts";
import type { LinkState } from "../src/common/panel.ts";
import { RpcError } from "../src/common/rpc.ts";
import { StartError, spawnConnection } from "../src/node/connection.ts";
import { later } from "./kit/clock.ts";
import { SmallDaemon, dice } from "./kit/daemon.ts";

const start = (command: string, ...args: readonly string[]): Promise<unknown> =>
  spawnConnection(command, args, { name: "test", version: "0" }, () => undefined).catch((error: unknown) => error);

test("a program that ends without a word is told as no gloveport, not by the pipe that broke", async () => {
  const error = await start("/bin/false", "lsp");
  assert.ok(error instanceof StartError);
  expect(error.message).toBe("/bin/false ended at once (1) without a word: it is no gloveport program.");
});

test("a program that says why it ended is told with its words, also where they come late", async () => {
  const error = await start("/bin/sh", "-c", "exec <&- >&-; sleep 0.05; echo no module named gloveport >&2; exit 3");
  assert.ok(error instanceof RpcError);
  expect(error.message).toBe("/bin/sh ended (3). no module named gloveport");
});

/** A link to a daemon by a program that can be named anew. */
function named(): { readonly link: Link; program: () => Promise<Line> } {
  const failed = (error: unknown): LinkState => ({ kind: "missing", words: String(error), actions: [] });
  const made: { link: Link; program: () => Promise<Line> } = {
    link: new Link({ open: () => made.program(), later, explain: failed, log: () => undefined }),
    program: () => Promise.reject(new Error("there is none")),
  };
  return made;
}

test("a program that is named anew is started, whether the one before was missing, hung or served", async () => {
  const daemon = new SmallDaemon(dice(1));
  daemon.calm = true;
  const made = named();
  const { link } = made;
  await link.renew();
  expect(link.state).toEqual(IDLE); // nobody wanted it
  await assert.rejects(link.connect(), /there is none/);
  expect(link.state.kind).toBe("missing");
  made.program = () => new Promise(() => undefined);
  void link.renew();
  await expect.poll(() => link.state.kind).toBe("starting");
  made.program = () => daemon.open();
  await link.renew();
  expect(link.state.kind).toBe("ready");
  const first = await link.connect();
  link.wanted = () => true;
  await link.renew();
  await expect.poll(async () => (await link.connect()) !== first && link.state.kind === "ready", { timeout: 20_000 }).toBe(true);
  link.dispose();
  daemon.die();
});
