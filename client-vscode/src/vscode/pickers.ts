/**
 * Choosing: model, sandbox, file to attach, key.
 *
 * Purpose: native lists in which every choice says what it means.
 * Invariant: a rung that can't be used stays visible with its reason and its fix.
 * Must never: choose for the user, or show a key.
 */

import { randomUUID } from "node:crypto";
import { relative } from "node:path";
import * as vscode from "vscode";
import type { SandboxInfo } from "../../../protocol/typescript/wire.ts";
import { MODES, amount, limitsOf, limitsWith, parseTokens, parseUsd, raiseOf } from "../common/bounds.ts";
import { EXAMPLE, isKeyName, keyRows, modelRows } from "../common/fresh.ts";
import type { Fresh } from "../common/fresh.ts";
import type { Attachment, Budget } from "../common/panel.ts";
import { labelText } from "../common/plain.ts";
import { capital, dollars, tokens } from "../common/words.ts";
import type { Actions } from "./actions.ts";
import { askImage } from "./askImage.ts";
import type { Daemon } from "./daemon.ts";
import type { Sessions } from "../common/sessions.ts";
import { show } from "./tell.ts";
import { rungWords } from "./trees.ts";

const FILES_MAX = 5_000;
const OFF = "not offered here";

export class Pickers {
  /** A key was kept or removed, in words; it counts for a daemon that begins after that. */
  onKey: (words: string) => Promise<void> = () => Promise.resolve();

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly fresh: Fresh,
    private readonly secrets: vscode.SecretStorage,
    private readonly memory: vscode.Memento,
  ) {}

  /** Of the session that is shown; where none is, of the one that the first message begins. */
  async chooseModel(): Promise<void> {
    this.actions.checkTrusted();
    const session = this.sessions.current;
    const connection = await this.daemon.connect();
    const models = await this.fresh.learn(connection);
    const info = session?.beside.detail?.info;
    const inUse = session === null ? this.fresh.model : { provider: info?.provider ?? "", model: info?.model ?? "" };
    const rows = modelRows(models, inUse).map((row) => ({ ...row, label: labelText(row.label), detail: labelText(row.detail) }));
    const picked = await vscode.window.showQuickPick(rows, {
      title: "Model of the next request",
      placeHolder: "Models come from config.toml (Gloveport: Open config.toml)",
      matchOnDescription: true,
      matchOnDetail: true,
    });
    if (picked === undefined) {
      return;
    }
    const { provider, model } = picked.one;
    if (session === null) {
      this.fresh.choose({ model: { provider, model } });
      return;
    }
    await connection.call("model/choose", { clientRequestId: randomUUID(), sessionId: session.id, provider, model });
  }

  async chooseSandbox(): Promise<void> {
    this.actions.checkTrusted();
    const session = this.sessions.current;
    const connection = await this.daemon.connect();
    const { sandboxes } = await connection.call("sandbox/list", {});
    const info = session?.beside.detail?.info;
    const level = session === null ? await this.levelHere() : (info?.trustLevel ?? "");
    const picked = await pickRung(sandboxes, level, session === null ? this.fresh.sandbox : (info?.sandbox ?? ""));
    if (picked === undefined) {
      return;
    }
    const { state, detail } = rungWords(picked, level);
    if (state !== "available") {
      await show(`${picked.name}: ${state}`, detail);
      return;
    }
    if (session === null) {
      this.fresh.choose({ sandbox: picked.name });
      return;
    }
    const image = await askImage(connection, session.id, picked.name);
    if (image !== undefined) {
      await connection.call("sandbox/choose", { clientRequestId: randomUUID(), sessionId: session.id, sandbox: picked.name, image });
    }
  }

  /** How far the only folder is trusted; empty where that is not said yet, or there are several. */
  private async levelHere(): Promise<string> {
    const [root, ...others] = this.sessions.roots;
    if (root === undefined || others.length > 0) {
      return "";
    }
    const connection = await this.daemon.connect();
    const { trustLevel } = await connection.call("workspace/show", { root });
    return trustLevel === "unset" ? "" : trustLevel;
  }

  async chooseMode(): Promise<void> {
    this.actions.checkTrusted();
    const session = this.sessions.current;
    const inUse = session === null ? this.fresh.mode : session.beside.detail?.mode;
    const rows = MODES.map((one) => ({ ...one, description: one.mode === inUse ? "in use" : "" }));
    const [title, placeHolder] =
      session === null
        ? ["Mode of the new session", "It counts from the first message on"]
        : ["Mode of this session", "It counts from the next call on"];
    const picked = await vscode.window.showQuickPick(rows, { title, placeHolder });
    if (picked === undefined) {
      return;
    }
    if (session === null) {
      this.fresh.choose({ mode: picked.mode });
      return;
    }
    const connection = await this.daemon.connect();
    await connection.call("session/mode", { clientRequestId: randomUUID(), sessionId: session.id, mode: picked.mode });
  }

  /** One of the four limits, or none of them any more; who turns back changes nothing. */
  async setBudget(): Promise<void> {
    this.actions.checkTrusted();
    const session = this.actions.currentOrFail;
    const connection = await this.daemon.connect();
    const detail = await connection.call("session/show", { sessionId: session.id });
    const set = new Map(limitsOf(detail).map((one) => [one.name, one.limit]));
    const rows = LIMITS.map((one) => ({ ...one, description: limitWords(one.unit, set.get(one.name)) }));
    const picked = await vscode.window.showQuickPick([...rows, ...(set.size > 0 ? [NO_LIMITS] : [])], {
      title: "Limits of this session",
      placeHolder: "Tokens and money may both be limited; the first limit that is reached counts",
    });
    if (picked === undefined) {
      return;
    }
    if (picked.name === null) {
      const none = { turnTokens: null, sessionTokens: null, money: { turnNanoUsd: null, sessionNanoUsd: null } };
      await connection.call("session/budget", { clientRequestId: randomUUID(), sessionId: session.id, ...none });
      return;
    }
    const value = await askLimit(picked, set.get(picked.name));
    if (value !== undefined) {
      const now = await connection.call("session/show", { sessionId: session.id });
      const limits = limitsWith(now, picked.name, value);
      await connection.call("session/budget", { clientRequestId: randomUUID(), sessionId: session.id, ...limits });
    }
  }

  /** Raise the limit that has no room for the next request by one step, as the card names it. */
  async addBudget(): Promise<void> {
    this.actions.checkTrusted();
    const session = this.actions.currentOrFail;
    const connection = await this.daemon.connect();
    const detail = await connection.call("session/show", { sessionId: session.id });
    const raise = raiseOf(detail);
    const limit = limitsOf(detail).find((one) => one.name === raise?.name)?.limit;
    if (raise === null || limit === undefined) {
      throw new Error("No limit of this session stands in the way.");
    }
    const limits = limitsWith(detail, raise.name, limit + raise.by);
    await connection.call("session/budget", { clientRequestId: randomUUID(), sessionId: session.id, ...limits });
  }

  /** A file of the session's folder, or the selection of the active editor when `selection` is set. */
  async pickAttachment(): Promise<Attachment | null> {
    const root = this.sessions.current?.beside.detail?.info.root ?? this.sessions.roots[0];
    if (root === undefined) {
      throw new Error("Open a folder first.");
    }
    const found = await vscode.workspace.findFiles(new vscode.RelativePattern(root, "**/*"), undefined, FILES_MAX);
    const paths = found.map((uri) => relative(root, uri.fsPath)).sort();
    const rows = paths.map((path) => ({ label: labelText(path), path }));
    const picked = await vscode.window.showQuickPick(rows, {
      title: "Attach a file",
      placeHolder: "The message names it; the agent reads it itself",
    });
    return picked === undefined ? null : { path: picked.path, lines: null };
  }

  /** What is selected in the active editor. */
  selection(): Attachment {
    const editor = vscode.window.activeTextEditor;
    const folder = editor === undefined ? undefined : vscode.workspace.getWorkspaceFolder(editor.document.uri);
    if (editor === undefined || folder === undefined) {
      throw new Error("Open a file of the folder first.");
    }
    const { start, end } = editor.selection;
    const path = relative(folder.uri.fsPath, editor.document.uri.fsPath);
    const last = end.character === 0 && end.line > start.line ? end.line : end.line + 1;
    return { path, lines: editor.selection.isEmpty ? null : [start.line + 1, last] };
  }

  /** The daemon's settings, in which models stand; with an example where there are none yet. */
  async openConfig(): Promise<void> {
    if (this.fresh.settingsPath === "") {
      await this.fresh.learn(await this.daemon.connect());
    }
    const uri = vscode.Uri.file(this.fresh.settingsPath);
    const isThere = await vscode.workspace.fs.stat(uri).then(
      () => true,
      () => false,
    );
    const document = await vscode.workspace.openTextDocument(isThere ? uri : uri.with({ scheme: "untitled" }));
    const editor = await vscode.window.showTextDocument(document);
    if (!isThere && document.getText() === "") {
      await editor.insertSnippet(new vscode.SnippetString(EXAMPLE));
    }
  }

  async showUsage(): Promise<void> {
    const session = this.actions.currentOrFail;
    const connection = await this.daemon.connect();
    const { total, byModel, pricedBy, note } = await connection.call("usage/show", { sessionId: session.id, turns: 0, requests: 0 });
    const spent = total.costNanoUsd === null ? "unpriced" : dollars(total.costNanoUsd);
    const rows = byModel.map(
      ({ name, sums }) =>
        `${name}: ${tokens(sums.inputTokens)} in, ${tokens(sums.outputTokens)} out, ${sums.costNanoUsd === null ? "unpriced" : dollars(sums.costNanoUsd)}`,
    );
    const detail = [...rows, pricedBy === "" ? "" : `Prices: ${pricedBy}`, note].filter((one) => one !== "").join("\n");
    await show(`${spent} in ${total.requests} requests`, detail);
  }

  /** Keep a model's key in the editor's own secret store; a daemon that this window begins gets it. */
  async setKey(): Promise<void> {
    const rows = keyRows(this.fresh.models).map((one) => ({ ...one, label: labelText(one.label) }));
    const picked = await vscode.window.showQuickPick(rows, { title: "Whose key?", matchOnDescription: true });
    if (picked === undefined) {
      return;
    }
    const { variable } = picked;
    const key = await vscode.window.showInputBox({
      title: `Key of ${picked.label}`,
      password: true,
      ignoreFocusOut: true,
      prompt: "Empty removes it. It stays in the editor’s secret store and goes to the daemon alone.",
    });
    if (key === undefined) {
      return;
    }
    await (key === "" ? this.secrets.delete(variable) : this.secrets.store(variable, key));
    await this.memory.update(KEY_NAMES, [...new Set([...keyNames(this.memory), variable])]);
    await this.onKey(key === "" ? "Removed." : "Kept.");
  }
}

const LIMITS = [
  { name: "turnTokens", unit: "tokens", label: "Tokens of a Turn", title: "Most tokens of a turn" },
  { name: "turnNanoUsd", unit: "usd", label: "US Dollars of a Turn", title: "Most US dollars of a turn" },
  { name: "sessionTokens", unit: "tokens", label: "Tokens of This Session", title: "Most tokens of this session" },
  { name: "sessionNanoUsd", unit: "usd", label: "US Dollars of This Session", title: "Most US dollars of this session" },
] as const;
const NO_LIMITS = { name: null, label: "No Limits", description: "take all of them back" } as const;

const ASKED = {
  tokens: {
    parse: parseTokens,
    prompt: "Input and output as the provider counts them. Empty: no limit.",
    example: "50k",
    wrong: "A whole number of tokens, such as 50000 or 50k",
  },
  usd: {
    parse: parseUsd,
    prompt: "Counted by the prices of today. Empty: no limit.",
    example: "2.00",
    wrong: "An amount of US dollars, such as 2 or 0.50",
  },
} as const;

function limitWords(unit: Budget["unit"], limit: number | undefined): string {
  return limit === undefined ? "no limit" : amount(unit, limit);
}

/** A limit as the user types it; null: none, undefined: he turned back. */
async function askLimit({ title, unit }: (typeof LIMITS)[number], now: number | undefined): Promise<number | null | undefined> {
  const { parse, prompt, example, wrong } = ASKED[unit];
  const typed = await vscode.window.showInputBox({
    title,
    prompt,
    value: now === undefined ? "" : unit === "usd" ? (now / 1e9).toFixed(9).replace(/\.?0+$/, "") : String(now),
    placeHolder: `Such as ${example}`,
    ignoreFocusOut: true,
    validateInput: (text) => (parse(text) === undefined ? wrong : null),
  });
  return typed === undefined ? undefined : parse(typed);
}

const KEY_NAMES = "gloveport.keyNames";

/** The variables of which a key may be kept: those of providers, and others that one was kept for. */
function keyNames(memory: vscode.Memento): readonly string[] {
  return [...keyRows([]).map(({ variable }) => variable), ...memory.get<readonly string[]>(KEY_NAMES, []).filter(isKeyName)];
}

/** The kept keys as variables for the program that is started. */
export async function keptKeys(secrets: vscode.SecretStorage, memory: vscode.Memento): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const variable of keyNames(memory)) {
    const key = await secrets.get(variable);
    if (key !== undefined) {
      found[variable] = key;
    }
  }
  return found;
}

async function pickRung(rungs: readonly SandboxInfo[], level: string, inUse: string): Promise<SandboxInfo | undefined> {
  const all = rungs.map((rung) => ({ rung, ...rungWords(rung, level) }));
  const item = ({ rung, state, detail }: (typeof all)[number]): vscode.QuickPickItem & { readonly rung: SandboxInfo } => ({
    label: `${state === "available" ? (rung.name === inUse ? "$(check)" : "$(shield)") : "$(circle-slash)"} ${rung.name}`,
    description: rung.name === inUse ? "in use" : state,
    detail: `Strength ${rung.strength} of 4. ${detail}`,
    rung,
  });
  const offered = all.filter((one) => one.state === "available").map(item);
  const off = all.filter((one) => one.state !== "available").map(item);
  const separator = { label: OFF, kind: vscode.QuickPickItemKind.Separator };
  const title = level === "" ? "Sandbox of this session" : `Sandbox for ${capital(level)} workspaces`;
  const picked = await vscode.window.showQuickPick([...offered, ...(off.length > 0 ? [separator, ...off] : [])], {
    title,
    placeHolder: "Where programs of this session run",
    matchOnDetail: true,
  });
  return picked !== undefined && "rung" in picked ? picked.rung : undefined;
}
