// Bundles the extension and its webview into dist/. The editor's own module stays outside.
import { rm } from "node:fs/promises";
import { build } from "esbuild";

const shared = { bundle: true, minify: true, sourcemap: false, logLevel: "warning", legalComments: "linked" };

await rm("dist", { recursive: true, force: true });
await Promise.all([
  build({
    ...shared,
    entryPoints: ["src/vscode/extension.ts"],
    outfile: "dist/extension.cjs",
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
  }),
  build({
    ...shared,
    entryPoints: { panel: "src/webview/main.ts", report: "src/webview/report.ts" },
    outdir: "dist",
    platform: "browser",
    target: "chrome122",
    format: "iife",
  }),
]);
