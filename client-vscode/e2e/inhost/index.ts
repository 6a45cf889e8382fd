/**
 * Tests that run inside the extension host, beside the installed extension.
 *
 * Purpose: hold the extension to the editor's own API: what it registers, how it stands in documents, what may set it.
 * Invariant: the daemon is the real one, reached by a connection of the test's own.
 * Must never: import the extension's code that is under test.
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import type { SessionInfo } from "../../../protocol/typescript/wire.ts";
import { spawnConnection } from "../../src/node/connection.ts";
import type { Connection } from "../../src/node/connection.ts";
import { until } from "../kit/processes.ts";
import { ONE, SHOP, TWO } from "../kit/shop.ts";

interface Given {
  readonly python: string;
  readonly lsp: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly data: string;
  readonly odd: readonly string[];
}

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly keybindings: readonly { readonly command: string }[];
    readonly walkthroughs: readonly { readonly steps: readonly { readonly description: string }[] }[];
  };
}

const given = JSON.parse(readFileSync(join(__dirname, "given.json"), "utf8")) as Given;
const root = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
const onDisk = (name: string): string => readFileSync(join(root, name), "utf8");

let connection: Connection;
const connect = async (): Promise<Connection> =>
  (await spawnConnection(given.python, given.lsp, { name: "inhost", version: "0" }, () => undefined, given.environment)).connection;

function extension(): vscode.Extension<unknown> {
  const found = vscode.extensions.getExtension("gloveport.gloveport");
  assert.ok(found, "the extension is not installed");
  return found;
}

async function ask(words: string): Promise<SessionInfo> {
  const { sessionId } = await connection.call("session/start", { clientRequestId: randomUUID(), root });
  await connection.call("turn/start", { clientRequestId: randomUUID(), sessionId, text: words });
  const info = await until(`${words} to end`, async () => {
    const shown = await connection.call("session/show", { sessionId });
    return shown.info.phase === "idle" && (await connection.call("change/list", { sessionId })).changes.length > 0 ? shown.info : null;
  });
  await vscode.commands.executeCommand("gloveport.openSession", info);
  return info;
}

async function lensesIn(uri: vscode.Uri): Promise<readonly vscode.Command[]> {
  await vscode.workspace.openTextDocument(uri);
  const found = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", uri, 50);
  return found.flatMap(({ command }) => (command === undefined || !command.command.startsWith("gloveport.") ? [] : [command]));
}

/** The lenses of a file once there are so many that accept. */
async function acceptLenses(uri: vscode.Uri, count: number): Promise<readonly vscode.Command[]> {
  return until(`${count} hunks in ${uri.path}`, async () => {
    const found = (await lensesIn(uri)).filter((one) => one.command === "gloveport.acceptHunk");
    return found.length === count ? found : null;
  });
}

/** A comparison that a window before this one opened has its text again: by its address alone, unsaved words and all. */
async function keptComparison(uri: vscode.Uri, wanted: string): Promise<void> {
  const { sessionId } = (await connection.call("session/list", {})).sessions[0] as SessionInfo;
  const address = vscode.Uri.from({ scheme: "gloveport", authority: "proposal", path: uri.path, query: sessionId });
  const kept = await vscode.workspace.openTextDocument(address);
  await until("the proposal's text", () => kept.getText() === wanted);
  const other = await vscode.workspace.openTextDocument(address.with({ authority: "output", path: "/gone" }));
  await until("words of a text that is gone", () => /Open it anew/.test(other.getText()));
}

const press = (command: vscode.Command | undefined): Thenable<unknown> => {
  assert.ok(command);
  return vscode.commands.executeCommand(command.command, ...((command.arguments ?? []) as unknown[]));
};

const TESTS: Readonly<Record<string, () => Promise<void>>> = {
  "it is active, and every command and key of its manifest exists": async () => {
    await until("activation", () => extension().isActive);
    const { contributes } = extension().packageJSON as Manifest;
    const known = new Set(await vscode.commands.getCommands(true));
    const named = [...contributes.commands, ...contributes.keybindings].map(({ command }) => command);
    assert.deepEqual(
      named.filter((one) => !known.has(one)),
      [],
    );
    const links = contributes.walkthroughs.flatMap(({ steps }) => steps.flatMap(({ description }) => [...description.matchAll(/command:([\w.]+)/g)]));
    assert.deepEqual(
      links.map(([, command]) => command ?? "").filter((one) => !known.has(one)),
      [],
    );
  },

  "a workspace can't name the program, nor how much may be under way": async () => {
    for (const name of ["command", "windowBytes"]) {
      const read = vscode.workspace.getConfiguration("gloveport").inspect(name);
      assert.equal(read?.workspaceValue ?? read?.workspaceFolderValue, undefined, name);
      assert.notEqual(vscode.workspace.getConfiguration("gloveport").get(name), name === "command" ? "/tmp/evil" : 4096);
    }
  },

  "a07: hunks stand in unsaved text, and an accepted one leaves the unsaved line where it is": async () => {
    const uri = vscode.Uri.file(join(root, "shop.py"));
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document);
    const mine = new vscode.WorkspaceEdit();
    mine.insert(uri, new vscode.Position(0, 0), "# mine, not saved\n");
    assert.ok(await vscode.workspace.applyEdit(mine));
    await ask("mend both");
    const [first, second] = await acceptLenses(uri, 2);
    await keptComparison(uri, `# mine, not saved\n${SHOP.replace(ONE.old, ONE.new).replace(TWO.old, TWO.new)}`);
    await press(first);
    await until("the hunk in the buffer", () => document.getText().includes(ONE.new));
    assert.ok(document.getText().startsWith("# mine, not saved\n"));
    const [left] = await acceptLenses(uri, 1);
    assert.deepEqual(left?.command, second?.command);
    await vscode.commands.executeCommand("workbench.action.files.save");
    await until("both on disk", () => onDisk("shop.py") === `# mine, not saved\n${SHOP.replace(ONE.old, ONE.new)}`);
  },

  "a07: a hunk that was accepted into a buffer is taken out again by the editor's own undo": async () => {
    const uri = vscode.Uri.file(join(root, "shop.py"));
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document);
    const before = document.getText();
    await press((await acceptLenses(uri, 1))[0]);
    await until("the second hunk", () => document.getText().includes(TWO.new));
    await until("nothing left", async () => (await lensesIn(uri)).length === 0);
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand("undo");
    await until("the buffer as before", () => document.getText() === before);
  },

  "h07: names with spaces, signs, percent and both forms of é are one file each": async () => {
    await ask("odd names");
    for (const name of given.odd) {
      const uri = vscode.Uri.file(join(root, name));
      await press((await acceptLenses(uri, 1))[0]);
      await until(`${name} on disk`, () => onDisk(name) === "two\nmore\n");
    }
  },

  "texts of the agent are read only, of no language": async () => {
    await vscode.commands.executeCommand("gloveport.openTranscript");
    const shown = await until("the transcript", () => vscode.window.visibleTextEditors.find(({ document }) => document.uri.scheme === "gloveport"));
    assert.equal(shown.document.languageId, "plaintext");
    assert.match(shown.document.getText(), /odd names/);
    assert.notEqual(vscode.workspace.fs.isWritableFileSystem("gloveport"), true);
  },

  "d06: the daemon dies under the host, and a decision made after that is done": async () => {
    const before = onDisk("shop.py");
    await vscode.commands.executeCommand("gloveport.undoLast"); // of the last of the odd names
    const { pid } = JSON.parse(readFileSync(join(given.data, "daemon.lock"), "utf8")) as { readonly pid: number };
    process.kill(pid, "SIGKILL");
    await until("a new daemon", () => (JSON.parse(readFileSync(join(given.data, "daemon.lock"), "utf8")) as { readonly pid: number }).pid !== pid);
    connection = await connect();
    const { sessionId } = (await connection.call("session/list", {})).sessions[0] as SessionInfo;
    await until("the daemon to say what waits", async () => (await connection.call("change/list", { sessionId })).changes.length > 0);
    assert.equal(onDisk("shop.py"), before);
    const odd = vscode.Uri.file(join(root, given.odd.at(-1) ?? ""));
    await press((await acceptLenses(odd, 1))[0]);
    await until("the decision on disk", () => onDisk(given.odd.at(-1) ?? "") === "two\nmore\n");
  },
};

/** What the extension host calls. */
async function runAll(): Promise<void> {
  connection = await connect();
  await connection.call("workspace/trust", { clientRequestId: randomUUID(), root, trustLevel: "trusted" });
  const failed: string[] = [];
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test();
      console.log(`ok ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAILED ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }
  await connection.close();
  if (failed.length > 0) {
    throw new Error(`${failed.length} failed`);
  }
}

export { runAll as run };
