/**
 * The one connection of this window to the daemon.
 *
 * Purpose: open it when it is first needed, again after it was lost, and close it with the window.
 * Invariant: the program to start comes from the user's or the machine's settings, never from a workspace.
 * Must never: stop the daemon, or keep one alive that nobody asked for.
 */

import * as vscode from "vscode";
import type { DaemonTold } from "../../../protocol/typescript/wire.ts";
import { spawnConnection } from "../node/connection.ts";
import type { Connection, Spawned } from "../node/connection.ts";

export class Daemon implements vscode.Disposable {
  private pending: Promise<Spawned> | null = null;
  private readonly lost = new vscode.EventEmitter<void>();
  readonly onLost = this.lost.event;
  private readonly told = new vscode.EventEmitter<DaemonTold>();
  readonly onTold = this.told.event;
  private readonly log: vscode.LogOutputChannel;
  private readonly version: string;

  constructor(log: vscode.LogOutputChannel, version: string) {
    this.log = log;
    this.version = version;
  }

  /** The connection; every caller gets the same one. */
  async connect(): Promise<Connection> {
    this.pending ??= this.spawn();
    const mine = this.pending;
    try {
      return (await mine).connection;
    } catch (error) {
      this.forget(mine);
      throw error;
    }
  }

  private async spawn(): Promise<Spawned> {
    const settings = vscode.workspace.getConfiguration("gloveport");
    const command = settings.get<string>("command", "gloveport");
    const args = settings.get<string[]>("commandArguments", ["lsp"]);
    this.log.info(`starting ${command} ${args.join(" ")}`);
    const identity = { name: "vscode", version: this.version };
    const spawned = await spawnConnection(command, args, identity, (line) => this.log.info(line));
    spawned.connection.onTold((notice) => this.told.fire(notice));
    void spawned.connection.closed.then(() => {
      this.log.info("the connection ended");
      this.pending = null;
      this.lost.fire();
    });
    return spawned;
  }

  private forget(failed: Promise<Spawned>): void {
    if (this.pending === failed) {
      this.pending = null;
    }
  }

  dispose(): void {
    this.lost.dispose();
    this.told.dispose();
    void this.pending?.then(({ connection }) => connection.close()).catch(() => undefined);
    this.pending = null;
  }
}
