// The extension's reducer, translated on the spot so that it is never a stale copy.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const CLIENT = new URL("../../../client-vscode/", import.meta.url);
/** Finds what the extension's lock file installed. */
export const clientRequire = createRequire(new URL("package.json", CLIENT));
export const sha256 = (text) => createHash("sha256").update(text, "utf8").digest("hex");

export async function loadReducer() {
  const { build } = clientRequire("esbuild");
  const entry = fileURLToPath(new URL("src/common/reducer.ts", CLIENT));
  const built = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm", logLevel: "silent" });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
}
