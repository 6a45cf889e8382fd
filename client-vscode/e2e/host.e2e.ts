/** Tests inside the extension host of a real VS Code: commands, lenses, documents and settings by the editor's own API. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Editor } from "./kit/editor.ts";
import { CLIENT, Home, LSP, PYTHON } from "./kit/home.ts";
import { call, scene } from "./kit/script.ts";
import { ONE, SHOP_FILES, TWO } from "./kit/shop.ts";

const ODD = ["a b#1%25é.py", "e\u0301 nfd.py", "C%3A.py"];

let home: Home;
let editor: Editor;

beforeAll(async () => {
  home = new Home({
    name: "e2e",
    steps: [
      ...scene(
        "mend both",
        { text: "I mend both.\n", calls: [ONE, TWO].map((edit) => call("edit_file", { path: "shop.py", ...edit })) },
        { text: "Done." },
      ),
      ...scene(
        "odd names",
        { text: "I edit them.\n", calls: ODD.map((path) => call("edit_file", { path, old: "one\n", new: "two\n" })) },
        { text: "Done." },
      ),
    ],
  });
  editor = await Editor.start(home, { flags: ["--disable-workspace-trust", "--vscode-option", "enable-smoke-test-driver"] });
});

afterAll(async () => {
  await editor?.stop();
  await home?.end();
});

test("in the extension host: commands, lenses on unsaved text (A07), odd names (H07), a killed daemon (D06), scopes", async () => {
  const odd = Object.fromEntries(ODD.map((name) => [name, "one\nmore\n"]));
  // A workspace may try to name a program; the setting's scope does not let it.
  const settings = JSON.stringify({ "gloveport.command": "/tmp/evil", "gloveport.windowBytes": 4096 });
  const root = home.workspace("shop", { ...SHOP_FILES, ...odd, ".vscode/settings.json": settings });
  const extension = join(home.dir, "inhost");
  mkdirSync(extension);
  const manifest = { name: "inhost", publisher: "tests", version: "0.0.1", engines: { vscode: "*" }, main: "./index.cjs", activationEvents: [] };
  writeFileSync(join(extension, "package.json"), JSON.stringify(manifest));
  writeFileSync(
    join(extension, "given.json"),
    JSON.stringify({ python: PYTHON, lsp: LSP, environment: home.environment, data: home.data, odd: ODD }),
  );
  await build({
    entryPoints: [join(CLIENT, "e2e/inhost/index.ts")],
    outfile: join(extension, "index.cjs"),
    bundle: true,
    platform: "node",
    format: "cjs",
    external: ["vscode"],
    logLevel: "warning",
  });
  const said = await editor.inHost(root, extension, join(extension, "index.cjs")).catch((error: unknown) => {
    console.error(editor.extensionLog().slice(-3000));
    throw error;
  });
  console.log(said);
  expect(said.match(/^ok /gm)).toHaveLength(7);
});
