// Bundles the extension, or with --tests the tests, into dist/. The editor's own module stays outside.
import { readdir, rm } from "node:fs/promises";
import { build } from "esbuild";

const shared = { bundle: true, platform: "node", target: "node20", sourcemap: true, logLevel: "warning" };

if (process.argv.includes("--tests")) {
  await rm("dist/test", { recursive: true, force: true });
  const names = (await readdir("test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...shared,
    entryPoints: names.map((name) => `test/${name}`),
    outdir: "dist/test",
    outExtension: { ".js": ".cjs" },
    format: "cjs",
  });
} else {
  await build({
    ...shared,
    entryPoints: ["src/vscode/extension.ts"],
    outfile: "dist/extension.cjs",
    format: "cjs",
    external: ["vscode"],
    minify: true,
    sourcemap: false,
    metafile: true,
    legalComments: "linked",
  });
}
