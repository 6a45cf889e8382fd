/**
 * The trees: grants, sessions, snapshots, sandboxes.
 *
 * Purpose: what is in force, as native rows with their actions.
 * Invariant: a row shows an answer of the daemon; without a link a tree is empty and says why.
 * Must never: connect before somebody looks, or decide.
 */

import { basename } from "node:path";
import * as vscode from "vscode";
import type { GrantInfo, RuleInfo, SandboxInfo, SessionInfo } from "../../../protocol/typescript/wire.ts";
import { SCOPES, SCOPE_WORDS } from "../common/cardModel.ts";
import { reveal, revealTip } from "../common/hidden.ts";
import { list } from "../common/rows.ts";
import { capital, clock, counted, lifetime, phaseLook, phaseWords } from "../common/words.ts";
import type { Daemon } from "./daemon.ts";
import type { OwnRules } from "./ownRules.ts";
import type { Sessions } from "../common/sessions.ts";

/** A row, and how its children come. */
export interface Node {
  readonly item: vscode.TreeItem;
  readonly children?: () => readonly Node[] | Promise<readonly Node[]>;
}

export interface GrantNode extends Node {
  readonly sessionId: string;
  readonly grantId: string;
}

export interface SessionNode extends Node {
  readonly session: SessionInfo;
}

export interface SandboxNode extends Node {
  readonly sandbox: string;
}

function row(label: string, more: Partial<vscode.TreeItem> = {}, children?: Node["children"]): Node {
  const open = children === undefined ? vscode.TreeItemCollapsibleState.None : vscode.TreeItemCollapsibleState.Collapsed;
  const item = Object.assign(new vscode.TreeItem(reveal(label), open), more);
  for (const part of ["description", "tooltip"] as const) {
    const words = more[part];
    if (typeof words === "string") {
      item[part] = revealTip(words);
    }
  }
  const words = [item.label, item.description, item.tooltip].filter((one): one is string => typeof one === "string" && one !== "");
  item.accessibilityInformation = { label: words.join(", ") }; // else a reader hears the tooltip alone
  return children === undefined ? { item } : { item, children };
}

/** A tree whose rows are made by one function, anew whenever it is told to. */
export class Tree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;

  constructor(private readonly roots: () => readonly Node[] | Promise<readonly Node[]>) {}

  refresh(): void {
    this.changed.fire(undefined);
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return node.item;
  }

  async getChildren(node?: Node): Promise<Node[]> {
    return [...(await (node === undefined ? this.roots() : (node.children?.() ?? [])))];
  }

  dispose(): void {
    this.changed.dispose();
  }
}

function grantRow(sessionId: string, title: string, grant: GrantInfo): GrantNode {
  const ends = grant.expiresAt === null ? "" : `${lifetime(Math.max(60, grant.expiresAt / 1e6 - Date.now() / 1000))} left`;
  const uses = grant.usesLeft === null ? "" : counted(grant.usesLeft, "use");
  const [head = grant.sentence] = grant.sentence.split(", ");
  const made = row(capital(head.replaceAll("`", "")), {
    id: grant.grantId,
    description: [ends, uses].filter((one) => one !== "").join(" · "),
    tooltip: `${capital(grant.sentence)}\n${title}`,
    iconPath: new vscode.ThemeIcon(/run/.test(head) ? "terminal" : /reach|connect/.test(head) ? "globe" : "edit"),
    contextValue: "grant",
  });
  return { ...made, sessionId, grantId: grant.grantId };
}

/** Rights in force, by their scope, and the rules that the shown session has of its own. */
export function grantRows(daemon: Daemon, sessions: Sessions, rules: OwnRules): () => Promise<readonly Node[]> {
  return async () => {
    if (daemon.state.kind !== "ready") {
      return [];
    }
    const connection = await daemon.connect();
    const found: (readonly [string, GrantNode])[] = [];
    for (const { id } of sessions.all) {
      const { grants } = await connection.call("grant/list", { sessionId: id });
      found.push(...grants.map((one) => [one.scope, grantRow(id, sessions.title(id), one)] as const));
    }
    const granted = SCOPES.flatMap((scope) => {
      const rows = found.filter(([of]) => of === scope).map(([, node]) => node);
      const state = vscode.TreeItemCollapsibleState.Expanded;
      return rows.length === 0 ? [] : [row(SCOPE_WORDS[scope], { description: String(rows.length), collapsibleState: state }, () => rows)];
    });
    return [...granted, ...(await ownRuleRows(sessions, rules))];
  };
}

export interface RuleNode extends Node {
  readonly sessionId: string;
  readonly ruleId: string;
}

function ruleRow(sessionId: string, rule: RuleInfo): RuleNode {
  const made = row(`${capital(rule.verdict)}: ${rule.justification}`, {
    id: `${sessionId} ${rule.ruleId}`,
    description: rule.ruleId,
    tooltip: [`${rule.verdict} ${(rule.effects ?? []).join(", ")}`, ...(rule.conditions ?? [])].join("\n"),
    iconPath: new vscode.ThemeIcon(rule.verdict === "deny" ? "circle-slash" : "question"),
    contextValue: "sessionRule",
  });
  return { ...made, sessionId, ruleId: rule.ruleId };
}

/** The shown session's own rules, as one row with them below; nothing where it has none. */
async function ownRuleRows(sessions: Sessions, rules: OwnRules): Promise<readonly Node[]> {
  const { current } = sessions;
  if (current === null) {
    return [];
  }
  const own = (await rules.shown(current.id)).rules.filter((one) => one.source === "session").map((one) => ruleRow(current.id, one));
  const look = { description: String(own.length), collapsibleState: vscode.TreeItemCollapsibleState.Expanded, contextValue: "sessionRules" };
  return own.length === 0 ? [] : [row("Rules of this session", look, () => own)];
}

const LOOKS = {
  run: "pulse",
  wait: "debug-breakpoint-log",
  pause: "debug-pause",
  unknown: "question",
  error: "error",
  idle: "circle-outline",
} as const;
const TINTS = {
  run: "charts.blue",
  wait: "editorWarning.foreground",
  pause: "foreground",
  unknown: "editorWarning.foreground",
  error: "charts.red",
  idle: "foreground",
} as const;

/** Sessions of this window's folders first. */
export function sessionRows(sessions: Sessions): () => readonly Node[] {
  return () =>
    sessions.list.map((session): SessionNode => {
      const look = phaseLook(session.phase);
      const elsewhere = sessions.isHere(session) ? "" : ` · ${basename(session.root)}`;
      const made = row(session.title, {
        id: session.sessionId,
        description: `${phaseWords(session.phase).toLowerCase()}${elsewhere}`,
        tooltip: `${session.root}\n${session.modelLabel}\n${session.sandbox} (${session.trustLevel})`,
        iconPath: new vscode.ThemeIcon(LOOKS[look], new vscode.ThemeColor(TINTS[look])),
        contextValue: "session",
        command: { command: "gloveport.openSession", title: "Open Session", arguments: [session] },
      });
      return { ...made, session };
    });
}

export interface SnapshotNode extends Node {
  readonly sessionId: string;
  readonly point: string;
  readonly title: string;
}

/** Points the folder can be put back to, newest first, and what the snapshots do not cover. */
export function snapshotRows(daemon: Daemon, sessions: Sessions): () => Promise<readonly Node[]> {
  return async () => {
    const { current } = sessions;
    if (current === null || daemon.state.kind !== "ready") {
      return [];
    }
    const connection = await daemon.connect();
    const { points } = await connection.call("snapshot/list", { sessionId: current.id });
    const rows = points.map(({ point, title, at }): SnapshotNode => {
      const made = row(title, {
        id: `${current.id} ${point}`,
        description: clock(at / 1000, Date.now()),
        iconPath: new vscode.ThemeIcon("layers"),
        contextValue: "snapshot",
      });
      return { ...made, sessionId: current.id, point, title };
    });
    const uncovered = (current.view?.items() ?? []).filter((item) => item.kind === "snapshot").flatMap((item) => list(item.fields, "notCovered"));
    const warning = {
      description: "not in the snapshot",
      iconPath: new vscode.ThemeIcon("warning", new vscode.ThemeColor("editorWarning.foreground")),
    };
    const missing =
      uncovered.length === 0 ? [] : [row(`${counted(uncovered.length, "file")} not covered`, warning, () => uncovered.map((path) => row(path)))];
    return [...rows.reverse(), ...missing];
  };
}

/** The words of a rung for one trust level. */
export function rungWords(rung: SandboxInfo, level: string): { readonly state: string; readonly detail: string } {
  if (!rung.available) {
    return { state: "refused", detail: `${rung.reason} ${rung.fix}`.trim() };
  }
  if (level !== "" && !rung.trustLevels.includes(level)) {
    return { state: `too weak for ${capital(level)}`, detail: rung.statement };
  }
  return { state: "available", detail: rung.statement };
}

function sandboxRow(rung: SandboxInfo): SandboxNode {
  const { state, detail } = rungWords(rung, "");
  const weaker = rung.doesNotHold.map((one) =>
    row(one.words, { tooltip: one.claim, iconPath: new vscode.ThemeIcon("warning", new vscode.ThemeColor("editorWarning.foreground")) }),
  );
  const holds = rung.holds.map((claim) => row(claim.replaceAll("_", " "), { iconPath: new vscode.ThemeIcon("check") }));
  const made = row(
    rung.name,
    {
      id: rung.name,
      description: `${state} · strength ${rung.strength} of 4`,
      tooltip: detail,
      iconPath: new vscode.ThemeIcon(rung.available ? "shield" : "circle-slash"),
      contextValue: rung.available ? "sandbox" : "sandbox-off",
    },
    () => [...weaker, ...holds],
  );
  return { ...made, sandbox: rung.name };
}

/** The rungs of this machine. */
export function sandboxRows(daemon: Daemon): () => Promise<readonly Node[]> {
  return async () => {
    if (daemon.state.kind !== "ready") {
      return [];
    }
    const connection = await daemon.connect();
    return (await connection.call("sandbox/list", {})).sandboxes.map(sandboxRow);
  };
}
