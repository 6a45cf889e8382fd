/**
 * The daemon, from this window.
 *
 * Purpose: the link to it, by the program that the settings name; what the daemon tells every client.
 * Invariant: the program to start comes from the user's or the machine's settings, never from a workspace.
 * Must never: stop the daemon by itself.
 */

import * as vscode from "vscode";
import type { DaemonTold } from "../../../protocol/typescript/wire.ts";
import { Emitter } from "../common/emitter.ts";
import type { Later } from "../common/emitter.ts";
import { Link } from "../common/link.ts";
import type { Line } from "../common/link.ts";
import type { LinkState, WayOn } from "../common/panel.ts";
import { RpcError } from "../common/rpc.ts";
import { OWN_NAME } from "../common/said.ts";
import { StartError, spawnConnection } from "../node/connection.ts";
import type { Connection } from "../node/connection.ts";

/** A program that does not end when it is told so is ended. */
const KILL_AFTER_MS = 2_000;
const CODE_VERSION = "daemon.version_mismatch";

export const later: Later = (ms, run) => {
  const timer = setTimeout(run, ms);
  return { dispose: () => clearTimeout(timer) };
};

export class Daemon implements vscode.Disposable {
  readonly link: Link;
  private readonly told = new Emitter<DaemonTold>();
  readonly onTold = this.told.event;
  private readonly opened = new Emitter<Connection>();
  /** A connection was opened; before whoever waits for the link hears of it. */
  readonly onConnection = this.opened.event;
  /** What the program gets in its environment beside this process's own: keys the user keeps in the editor. */
  environment: () => Promise<Readonly<Record<string, string>>> = () => Promise.resolve({});

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly version: string,
  ) {
    this.link = new Link({ open: () => this.open(), later, explain: failureState, log: (words) => log.info(words) });
  }

  get state(): LinkState {
    return this.link.state;
  }

  connect(): ReturnType<Link["connect"]> {
    return this.link.connect();
  }

  private async open(): Promise<Line> {
    const settings = vscode.workspace.getConfiguration("gloveport");
    const command = settings.get<string>("command", "gloveport");
    const args = settings.get<string[]>("commandArguments", ["lsp"]);
    this.log.info(`starting ${command} ${args.join(" ")}`);
    const identity = { name: OWN_NAME, version: this.version, documents: true };
    const { connection, child } = await spawnConnection(command, args, identity, (line) => this.log.info(line), await this.environment());
    connection.onTold((notice) => this.told.fire(notice));
    this.opened.fire(connection);
    const kill = (): void => void child.kill();
    const end = (): void => {
      connection.close().then(kill, kill);
      later(KILL_AFTER_MS, kill);
    };
    return { rpc: connection, closed: connection.closed, end };
  }

  dispose(): void {
    this.link.dispose();
    this.told.dispose();
    this.opened.dispose();
  }
}

const AGAIN: WayOn = { title: "Try again", verb: "retry" };
const SETTINGS: WayOn = { title: "Open settings", verb: "openSettings" };

/** What went wrong at the start, and the buttons that help. */
export function failureState(error: unknown): LinkState {
  const words = error instanceof Error ? error.message : String(error);
  if (error instanceof StartError) {
    const help = `${words} Install gloveport, or name the program in the setting gloveport.command.`;
    return { kind: "missing", words: help, actions: [SETTINGS, AGAIN] };
  }
  if ((error instanceof RpcError && error.data?.code === CODE_VERSION) || /speaks protocol/.test(words)) {
    const help = "The daemon and this extension speak different protocols. Install the same version of both, then run: gloveport daemon stop";
    return { kind: "version", words: help, actions: [AGAIN] };
  }
  return { kind: "failed", words, actions: [AGAIN, SETTINGS, { title: "Show the log", verb: "showOutput" }] };
}
