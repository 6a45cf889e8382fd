// The extension's own modules, translated on the spot so that they are never a stale copy.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const CLIENT = new URL("../../../client-vscode/", import.meta.url);
/** Finds what the extension's lock file installed. */
export const clientRequire = createRequire(new URL("package.json", CLIENT));
export const sha256 = (text) => createHash("sha256").update(text, "utf8").digest("hex");

/** A module of the extension, with all that it imports. */
export async function bundle(path) {
  const { build } = clientRequire("esbuild");
  const entry = fileURLToPath(new URL(path, CLIENT));
  const built = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    logLevel: "silent",
  });
  const module = { exports: {} };
  new Function("module", "exports", "require", built.outputFiles[0].text)(module, module.exports, clientRequire);
  return module.exports;
}

export const loadReducer = () => bundle("src/common/reducer.ts");
