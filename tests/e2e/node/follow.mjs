// Follows a session with the extension's own code over `gloveport lsp` (or any program that pipes to the daemon).
//
// Usage: node follow.mjs SESSION_ID COMMAND [ARGUMENT...]     prints {title, inSync, digest, items, turns}

import { bundle } from "./reducer.mjs";

const [sessionId, command, ...args] = process.argv.slice(2);
const { spawnConnection } = await bundle("src/node/connection.ts");
const { SessionFollower } = await bundle("src/common/follower.ts");
const { sha256 } = await bundle("src/node/digest.ts");

const identity = { name: "node-follow", version: "1" };
const { connection } = await spawnConnection(command, args, identity, (line) => console.error(line));
const { info } = await connection.call("session/show", { sessionId });
const agreed = deferred(); // Node 20 has no Promise.withResolvers
const follower = new SessionFollower(connection, {
  sessionId,
  windowBytes: 1 << 16,
  sha256,
  onChange: () => follower.inSync && agreed.resolve(),
  onFault: agreed.reject,
  later: (ms, run) => {
    const timer = setTimeout(run, ms);
    return { dispose: () => clearTimeout(timer) };
  },
});
await follower.start();
await agreed.promise;
const { view, inSync } = follower;
const turns = view.items().filter(({ kind }) => kind === "turn").map(({ fields }) => fields.state);
const report = { title: info.title, inSync, digest: view.digest(), items: view.size, turns };
await follower.stop();
await connection.close();
console.log(JSON.stringify(report));

function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
