/** What the manifest promises: restricted workspaces, scopes of settings, no telemetry, a command for each title. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";

interface Setting {
  readonly scope: string;
  readonly type: string;
  readonly description: string;
  readonly default: unknown;
  readonly maximum?: number;
}

interface Manifest {
  readonly capabilities: {
    readonly untrustedWorkspaces: { readonly supported: string; readonly description: string; readonly restrictedConfigurations: readonly string[] };
  };
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly configuration: { readonly properties: Readonly<Record<string, Setting>> };
    readonly menus: Readonly<Record<"commandPalette" | "view/title", readonly { readonly command: string; readonly when: string }[]>>;
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

/** Every setting and who decides it. A new one is put here with its reason, or the test is red. */
const SCOPES = {
  "gloveport.command": "machine", // it names a program that runs with the user's rights
  "gloveport.commandArguments": "machine", // likewise
  "gloveport.turnTokens": "machine", // what the user lets a session spend
  "gloveport.sessionTokens": "machine", // likewise
  "gloveport.turnUsd": "machine", // likewise
  "gloveport.sessionUsd": "machine", // likewise
  "gloveport.windowBytes": "application", // how much of the user's memory a stream may hold
};

test("no setting can come from a workspace", () => {
  const { properties } = manifest.contributes.configuration;
  assert.deepEqual(Object.fromEntries(Object.entries(properties).map(([name, { scope }]) => [name, scope])), SCOPES);
  for (const [name, { scope }] of Object.entries(properties)) {
    assert.ok(["machine", "application"].includes(scope), name);
  }
});

test("every setting says what it does, begins with something and is bounded", () => {
  for (const [name, setting] of Object.entries(manifest.contributes.configuration.properties)) {
    assert.match(setting.description, /^[A-Z].{40,}\.$/, name);
    assert.notEqual(setting.default, undefined, name);
    assert.ok(setting.type !== "integer" || (setting.maximum ?? 0) > 0, name);
  }
});

test("a restricted workspace can neither name the program nor its arguments, whatever its scope will be", () => {
  assert.deepEqual(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations, ["gloveport.command", "gloveport.commandArguments"]);
});

/** What a restricted window may still ask that changes something: stopping what runs. */
const ALSO_RESTRICTED = ["cancel"];
/** Steps of `start`, which has asked. */
const ASKED_BY_START = ["ensureTrust", "limit", "withImage"];

test("whatever asks the daemon to change something asks first whether the window is trusted", () => {
  const methods = ["actions.ts", "pickers.ts", "records.ts", "ownRules.ts", "answers.ts"].flatMap((name) =>
    readFileSync(join("src/vscode", name), "utf8")
      .split(/\n {2}(?=(?:private )?(?:async )?\w+\(.*\{\n)/)
      .slice(1),
  );
  const changing = methods.filter((body) => body.includes("clientRequestId")).map((body) => [/(\w+)\(/.exec(body)?.[1] ?? "", body] as const);
  assert.ok(changing.length > 15, String(changing.length));
  const unasked = changing.filter(([, body]) => !/checkTrusted\(\)/.test(body)).map(([name]) => name);
  assert.deepEqual(unasked.sort(), [...ALSO_RESTRICTED, ...ASKED_BY_START].sort());
});

test("every contributed command is registered, and nothing else is", () => {
  const contributed = manifest.contributes.commands.map((row) => row.command).sort();
  const registered = [...source("vscode").matchAll(/command\("(\w+)", /g)].map((found) => `gloveport.${found[1]}`).sort();
  assert.deepEqual(registered, contributed);
});

test("a command that needs a session is offered where there is one", () => {
  const { commandPalette, "view/title": title } = manifest.contributes.menus;
  const hidden = commandPalette.filter(({ when }) => /\bgloveport\.session\b/.test(when)).map(({ command }) => command);
  for (const name of [
    "addRule",
    "editRules",
    "showTrace",
    "showUsage",
    "openTranscript",
    "eraseText",
    "renameSession",
    "deleteSession",
    "setBudget",
  ]) {
    assert.ok(hidden.includes(`gloveport.${name}`), name);
  }
  for (const name of ["chooseMode", "chooseModel", "chooseSandbox", "startSession", "setKey", "openConfig"]) {
    assert.ok(!hidden.includes(`gloveport.${name}`), name);
  }
  const shown = title.filter(({ command, when }) => hidden.includes(command) && !/\bgloveport\.session\b/.test(when));
  assert.deepEqual(shown, []);
});

test("every setting that is read is contributed", () => {
  const read = [...source("vscode").matchAll(/\.get<[^>]+>\("(\w+)"/g)].map((found) => `gloveport.${found[1]}`);
  assert.deepEqual([...new Set(read)].sort(), Object.keys(manifest.contributes.configuration.properties).sort());
});

test("common code uses no ambient API, and nothing calls home", () => {
  assert.doesNotMatch(source("common"), /from "(node:|vscode"|vscode-)|\b(process|setTimeout|console|Date)\b\./);
  assert.doesNotMatch(source("vscode") + source("node"), /createTelemetryLogger|\bfetch\(|https?:\/\//);
});
