// Bundles the extension and its webview into a folder, dist/ if none is named, with the licences of what was bundled.
// The editor's own module stays outside.
import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const out = process.argv[2] ?? "dist";
const shared = { bundle: true, minify: true, sourcemap: false, metafile: true, logLevel: "warning", legalComments: "none" };

await rm(out, { recursive: true, force: true });
const made = await Promise.all([
  build({
    ...shared,
    entryPoints: ["src/vscode/extension.ts"],
    outfile: join(out, "extension.cjs"),
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
  }),
  build({
    ...shared,
    entryPoints: { panel: "src/webview/main.ts", report: "src/webview/report.ts" },
    outdir: out,
    platform: "browser",
    target: "chrome122",
    format: "iife",
  }),
]);

const inputs = made.flatMap(({ metafile }) => Object.keys(metafile.inputs));
const folders = new Set(inputs.map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]).filter((one) => one !== undefined));
const notices = [];
for (const folder of [...folders].sort()) {
  const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) {
    throw new Error(`${name} has no file of its licence; it can't be shipped`);
  }
  notices.push(`${name} ${version} (${license})\n\n${(await readFile(join(folder, file), "utf8")).trim()}\n`);
}
const rule = `\n${"-".repeat(79)}\n\n`;
await writeFile(join(out, "THIRD-PARTY.txt"), ["The extension contains parts of these packages.\n", ...notices].join(rule));
