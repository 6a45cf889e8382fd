// The main job over the daemon's raw socket, by a client that shares no code with the Python one.
//
// Usage: node job.mjs SOCKET TOKEN WORKSPACE MESSAGE [--provider P --model M --sandbox S] [--trust LEVEL]
//                     [--session ID] [--decision allow|deny] [--keep] [--timeout SECONDS]
//
// Starts a session, follows it, sends the message, answers every card, accepts all changes, and prints one line of
// JSON: {sessionId, turn, approvals, paths, watermark, items, viewDigest, daemonDigest}. With --session it only joins
// that session and ends when the view rests and agrees. --keep leaves the changes pending. Exit 0 when client and
// daemon agree on the digest; 1 with {"error", "code"} otherwise.

import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { clientRequire, loadReducer, sha256 } from "./reducer.mjs";

const { StreamMessageReader, StreamMessageWriter, createMessageConnection } = clientRequire("vscode-jsonrpc/node");
const PAGE_LIMIT = 500;
const ENDED = new Set(["completed", "failed", "cancelled"]);
const APPLIED = new Set(["done", "refused"]);

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    provider: { type: "string" },
    model: { type: "string" },
    sandbox: { type: "string" },
    trust: { type: "string" },
    session: { type: "string" },
    decision: { type: "string", default: "allow" },
    keep: { type: "boolean", default: false },
    timeout: { type: "string", default: "60" },
  },
});
const [socketPath, token, workspace, message] = positionals;

const mutation = () => ({ clientRequestId: randomUUID() });

async function open() {
  const socket = connect(socketPath);
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  const wire = createMessageConnection(new StreamMessageReader(socket), new StreamMessageWriter(socket));
  wire.listen();
  await wire.sendRequest("initialize", {
    processId: process.pid,
    rootUri: null,
    capabilities: {},
    clientInfo: { name: "node-job", version: "1" },
    initializationOptions: { decisionToken: token },
  });
  await wire.sendNotification("initialized", {});
  return { wire, socket };
}

/** One followed session: the view, and waiting for a condition on it. */
class Followed {
  constructor(wire, view, sessionId) {
    Object.assign(this, { wire, view, sessionId, daemonDigest: null, rests: false, early: [], waiters: [] });
    this.failed = new Promise((_, reject) => (this.fail = reject));
    this.failed.catch(() => undefined);
    wire.onNotification("session/events", (batch) => this.take(batch));
  }

  async subscribe() {
    const reply = await this.wire.sendRequest("session/subscribe", { sessionId: this.sessionId });
    let { items, itemsBefore } = reply.snapshot ?? { items: [], itemsBefore: 0 };
    while (itemsBefore > 0) {
      const params = { sessionId: this.sessionId, before: itemsBefore, limit: PAGE_LIMIT };
      const page = await this.wire.sendRequest("session/item/list", params);
      items = [...page.items, ...items];
      itemsBefore = page.itemsBefore;
    }
    this.view.load(items, 0);
    this.subscriptionId = reply.subscriptionId;
    const early = this.early;
    this.early = null;
    early.forEach((batch) => this.take(batch));
  }

  take(batch) {
    if (this.early !== null) {
      this.early.push(batch);
      return;
    }
    try {
      batch.events.forEach((event) => this.view.applyEvent(event));
    } catch (error) {
      this.fail(error);
      return;
    }
    const last = batch.events.at(-1);
    if (last !== undefined) {
      const params = { subscriptionId: this.subscriptionId, seq: last.seq };
      this.wire.sendRequest("session/ack", params).catch((error) => this.fail(error));
    }
    this.daemonDigest = batch.viewDigest ?? null;
    this.rests = this.daemonDigest !== null;
    if (this.rests && this.daemonDigest !== this.view.digest()) {
      this.fail(new Error("the view differs from the daemon's"));
      return;
    }
    this.waiters = this.waiters.filter((check) => !check());
  }

  /** Resolves with the first true value of the condition, now or after a later batch. */
  until(condition) {
    const met = new Promise((resolve) => {
      const check = () => {
        const value = condition(this.view.items());
        if (value) {
          resolve(value);
        }
        return Boolean(value);
      };
      if (!check()) {
        this.waiters.push(check);
      }
    });
    return Promise.race([met, this.failed]);
  }
}

async function startSession(wire) {
  if (options.trust !== undefined) {
    await wire.sendRequest("workspace/trust", { ...mutation(), root: workspace, trustLevel: options.trust });
  }
  const { provider = null, model = null, sandbox = null } = options;
  const params = { ...mutation(), root: workspace, title: "Node job", provider, model, sandbox };
  return (await wire.sendRequest("session/start", params)).sessionId;
}

/** Answer each card once, until the turn ends. */
async function runTurn(followed) {
  const { wire, sessionId } = followed;
  const started = await wire.sendRequest("turn/start", { ...mutation(), sessionId, text: message });
  const answered = new Set();
  const find = (items) => {
    const card = items.find((item) => item.kind === "approval" && item.fields.state === "pending" && !answered.has(item.id));
    return card ?? items.find((item) => item.id === `turn/${started.turnId}` && ENDED.has(item.fields.state));
  };
  for (;;) {
    const found = await followed.until(find);
    if (found.kind === "turn") {
      return { turn: found.fields.state, approvals: answered.size };
    }
    answered.add(found.id);
    const approvalId = found.id.slice("approval/".length);
    const answer = { approvalId, cardDigest: found.fields.cardDigest, decision: options.decision };
    await wire.sendRequest("approval/resolve", { ...mutation(), sessionId, ...answer });
  }
}

async function acceptChanges(followed) {
  const { wire, sessionId } = followed;
  const { changes } = await wire.sendRequest("change/list", { sessionId });
  if (options.keep || changes.length === 0) {
    return [];
  }
  const selections = changes.map(({ changeId, digest }) => ({ changeId, digest }));
  const done = await wire.sendRequest("change/accept", { ...mutation(), sessionId, selections });
  await followed.until((items) => items.find((item) => item.id === `apply/${done.applyId}` && APPLIED.has(item.fields.state)));
  return done.paths;
}

async function run() {
  const { View } = await loadReducer();
  const { wire, socket } = await open();
  const sessionId = options.session ?? (await startSession(wire));
  const followed = new Followed(wire, new View(sha256), sessionId);
  await followed.subscribe();
  let report = {};
  if (options.session === undefined) {
    report = await runTurn(followed);
    report.paths = await acceptChanges(followed);
  }
  await followed.until(() => followed.rests);
  await wire.sendRequest("shutdown");
  await wire.sendNotification("exit");
  wire.dispose();
  socket.destroy();
  const { view, daemonDigest } = followed;
  return { sessionId, ...report, watermark: view.watermark, items: view.size, viewDigest: view.digest(), daemonDigest };
}

const late = new Promise((_, reject) => {
  const seconds = Number(options.timeout);
  setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000).unref();
});
try {
  console.log(JSON.stringify(await Promise.race([run(), late])));
} catch (error) {
  console.log(JSON.stringify({ error: error.message, code: error.data?.code ?? null }));
  process.exitCode = 1;
}
process.exit();
