/**
 * The one connection of this window to the daemon.
 *
 * Purpose: open it when it is first needed, again while anybody wants it, and say how it stands.
 * Invariant: the program to start comes from the user's or the machine's settings, never from a workspace; every
 * failure becomes words and something to do.
 * Must never: stop the daemon, or keep one alive that nobody asked for.
 */

import * as vscode from "vscode";
import type { DaemonTold } from "../../../protocol/typescript/wire.ts";
import type { LinkState } from "../common/panel.ts";
import { RpcError } from "../common/rpc.ts";
import { StartError, spawnConnection } from "../node/connection.ts";
import type { Connection, Spawned } from "../node/connection.ts";

const RETRY_FIRST_MS = 250;
const RETRY_MOST_MS = 15_000;

export const IDLE: LinkState = { kind: "idle", words: "", action: null };

export class Daemon implements vscode.Disposable {
  private pending: Promise<Spawned> | null = null;
  private state: LinkState = IDLE;
  private timer: NodeJS.Timeout | null = null;
  private waitMs = RETRY_FIRST_MS;
  private disposed = false;
  private readonly opened = new vscode.EventEmitter<Connection>();
  /** A connection was opened: the first, or one after a loss. */
  readonly onOpened = this.opened.event;
  private readonly lost = new vscode.EventEmitter<void>();
  readonly onLost = this.lost.event;
  private readonly told = new vscode.EventEmitter<DaemonTold>();
  readonly onTold = this.told.event;
  private readonly changed = new vscode.EventEmitter<LinkState>();
  readonly onLink = this.changed.event;
  private readonly log: vscode.LogOutputChannel;
  private readonly version: string;
  /** Whether anybody still wants the connection after it was lost. */
  wanted: () => boolean = () => false;
  /** What the program gets in its environment beside this process's own: keys the user keeps in the editor. */
  environment: () => Promise<Readonly<Record<string, string>>> = () => Promise.resolve({});

  constructor(log: vscode.LogOutputChannel, version: string) {
    this.log = log;
    this.version = version;
  }

  get link(): LinkState {
    return this.state;
  }

  /** The connection; every caller gets the same one. */
  async connect(): Promise<Connection> {
    this.stopTimer();
    this.pending ??= this.spawn();
    const mine = this.pending;
    try {
      return (await mine).connection;
    } catch (error) {
      if (this.pending === mine) {
        this.pending = null;
      }
      throw error;
    }
  }

  /** Try again now. */
  async retry(): Promise<void> {
    this.waitMs = RETRY_FIRST_MS;
    await this.connect().catch(() => undefined); // the state says what went wrong
  }

  private async spawn(): Promise<Spawned> {
    const settings = vscode.workspace.getConfiguration("gloveport");
    const command = settings.get<string>("command", "gloveport");
    const args = settings.get<string[]>("commandArguments", ["lsp"]);
    this.log.info(`starting ${command} ${args.join(" ")}`);
    if (this.state.kind !== "lost") {
      this.say({ kind: "starting", words: "Connecting to the daemon", action: null });
    }
    const identity = { name: "vscode", version: this.version, documents: true };
    let spawned: Spawned;
    try {
      spawned = await spawnConnection(command, args, identity, (line) => this.log.info(line), await this.environment());
    } catch (error) {
      this.log.error(String(error));
      this.say(failureState(error));
      throw error;
    }
    this.waitMs = RETRY_FIRST_MS;
    spawned.connection.onTold((notice) => this.told.fire(notice));
    void spawned.connection.closed.then(() => this.ended(spawned));
    this.say({ kind: "ready", words: "", action: null });
    this.opened.fire(spawned.connection);
    return spawned;
  }

  private ended(spawned: Spawned): void {
    this.log.info("the connection ended");
    spawned.child.kill();
    this.pending = null;
    if (this.disposed) {
      return;
    }
    const wanted = this.wanted();
    this.say(wanted ? { kind: "lost", words: "Connection lost. Trying again", action: { title: "Try now", verb: "retry" } } : IDLE);
    this.lost.fire();
    if (wanted) {
      this.again();
    }
  }

  private again(): void {
    if (this.timer !== null || this.disposed) {
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = null;
      this.connect().catch(() => {
        if (this.wanted() && this.state.kind === "failed") {
          this.again();
        }
      });
    }, this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, RETRY_MOST_MS);
  }

  private stopTimer(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
  }

  private say(state: LinkState): void {
    this.state = state;
    this.changed.fire(state);
  }

  dispose(): void {
    this.disposed = true;
    this.stopTimer();
    void this.pending?.then(({ connection }) => connection.close()).catch(() => undefined);
    this.pending = null;
    for (const emitter of [this.opened, this.lost, this.told, this.changed]) {
      emitter.dispose();
    }
  }
}

/** What went wrong at the start, and the button that helps. */
export function failureState(error: unknown): LinkState {
  const words = error instanceof Error ? error.message : String(error);
  if (error instanceof StartError) {
    const help = `${words} Install gloveport, or name the program in the setting gloveport.command.`;
    return { kind: "missing", words: help, action: { title: "Open settings", verb: "openSettings" } };
  }
  if ((error instanceof RpcError && error.data?.code === "daemon.version_mismatch") || /speaks protocol/.test(words)) {
    const help = `${words} Install the same version of both, then stop the old daemon: gloveport daemon stop`;
    return { kind: "version", words: help, action: { title: "Try again", verb: "retry" } };
  }
  return { kind: "failed", words, action: { title: "Show the log", verb: "showOutput" } };
}
