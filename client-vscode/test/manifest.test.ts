/** What the manifest promises: restricted workspaces, scopes of settings, no telemetry, a command for each title. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";

interface Manifest {
  readonly capabilities: { readonly untrustedWorkspaces: { readonly supported: string; readonly description: string } };
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly configuration: { readonly properties: Readonly<Record<string, { readonly scope: string }>> };
    readonly keybindings: readonly { readonly command: string; readonly key: string; readonly mac?: string; readonly when?: string }[];
  };
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const source = (folder: string): string =>
  readdirSync(join("src", folder))
    .map((name) => readFileSync(join("src", folder, name), "utf8"))
    .join("\n");

test("a restricted workspace is supported in part, and says so", () => {
  assert.equal(manifest.capabilities.untrustedWorkspaces.supported, "limited");
  assert.ok(manifest.capabilities.untrustedWorkspaces.description.length > 20);
});

test("no setting can come from a workspace", () => {
  for (const [name, setting] of Object.entries(manifest.contributes.configuration.properties)) {
    assert.ok(["machine", "application"].includes(setting.scope), name);
  }
});

test("every contributed command is registered, and nothing else is", () => {
  const contributed = manifest.contributes.commands.map((row) => row.command).sort();
  const registered = [...source("vscode").matchAll(/command\("(\w+)", /g)].map((found) => `gloveport.${found[1]}`).sort();
  assert.deepEqual(registered, contributed);
});

test("every setting that is read is contributed", () => {
  const read = [...source("vscode").matchAll(/\.get<[^>]+>\("(\w+)"/g)].map((found) => `gloveport.${found[1]}`);
  assert.deepEqual([...new Set(read)].sort(), Object.keys(manifest.contributes.configuration.properties).sort());
});

test("common code uses no ambient API, and nothing calls home", () => {
  assert.doesNotMatch(source("common"), /from "(node:|vscode"|vscode-)|\b(process|setTimeout|console|Date)\b\./);
  assert.doesNotMatch(source("vscode") + source("node"), /createTelemetryLogger|\bfetch\(|https?:\/\//);
});
