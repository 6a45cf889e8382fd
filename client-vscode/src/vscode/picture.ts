/**
 * The picture around the conversation.
 *
 * Purpose: from the daemon's answers to what the panel's header, files and composer show.
 * Invariant: nothing that was not answered is shown as known.
 * Must never: ask or decide.
 */

import * as vscode from "vscode";
import type { ChangeInfo, SessionInfo } from "../../../protocol/typescript/wire.ts";
import { nearestBudget, raiseOf } from "../common/bounds.ts";
import type { Fresh } from "../common/fresh.ts";
import { aloneWords, refusedWords } from "../common/keeping.ts";
import type { FileRow, PanelState, SessionPicture, SessionRow } from "../common/panel.ts";
import { suspectedFindings } from "../common/suspicion.ts";
import { splitPath } from "../common/words.ts";
import type { Daemon } from "./daemon.ts";
import type { Followed } from "../common/followed.ts";
import type { Sessions } from "../common/sessions.ts";

export interface Pictured {
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  /** Words that stand until they are untrue. */
  standing: string;
  readonly fresh: Fresh;
}

function sessionRow(one: SessionInfo): SessionRow {
  return { id: one.sessionId, title: one.title, phase: one.phase, folder: one.root, updatedAt: one.updatedAt };
}

export function fileRow(change: ChangeInfo): FileRow {
  const { name, folder } = splitPath(change.path);
  return {
    changeId: change.changeId,
    path: change.path,
    name,
    folder,
    kind: change.kind,
    added: change.hunks.reduce((sum, hunk) => sum + hunk.newCount, 0),
    removed: change.hunks.reduce((sum, hunk) => sum + hunk.oldCount, 0),
    hunks: change.hunks.length,
    digest: change.digest,
    alone: aloneWords(change),
    refused: refusedWords(change),
    findings: suspectedFindings(change.suspected),
  };
}

function sessionPicture(session: Followed, listed: SessionInfo | undefined): SessionPicture | null {
  const { detail, changes, usage, since, contextTokens, turns } = session.beside;
  const info = detail?.info ?? listed;
  if (info === undefined) {
    return null;
  }
  return {
    id: session.id,
    title: listed?.title ?? info.title,
    root: info.root,
    phase: info.phase,
    trust: info.trustLevel,
    sandbox: info.sandbox,
    model: info.model ?? "",
    modelLabel: info.modelLabel,
    goal: detail?.goalRevision ?? 0,
    turnId: detail?.turnId ?? null,
    since,
    readOnly: detail?.readOnly ?? false,
    ended: session.ended ?? "",
    fault: session.fault ?? "",
    inSync: session.inSync,
    seq: session.view?.watermark ?? 0,
    queue: detail?.queue ?? [],
    files: changes.map(fileRow),
    contextTokens,
    costNanoUsd: usage?.costNanoUsd ?? null,
    unpriced: usage?.unpriced ?? 0,
    tokens: (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0),
    mode: detail?.mode ?? "agent",
    budget: nearestBudget(detail),
    raise: raiseOf(detail),
    turns,
  };
}

export function panelState({ daemon, sessions, standing, fresh }: Pictured): PanelState {
  const { current } = sessions;
  const session = current === null ? null : sessionPicture(current, sessions.info(current.id));
  return {
    link: daemon.state,
    trusted: vscode.workspace.isTrusted,
    folders: sessions.roots.length,
    sessions: sessions.list.map(sessionRow),
    session,
    fresh: fresh.picture,
    standing,
    mac: process.platform === "darwin",
  };
}
