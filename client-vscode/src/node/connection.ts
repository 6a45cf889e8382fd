/**
 * A connection to the daemon over JSON-RPC.
 *
 * Purpose: framing and typing; `gloveport lsp` as a child, or any pair of streams.
 * Invariant: nothing is called before `initialize` was answered; a closed connection rejects every call, also one under way.
 * Must never: log a token, or keep the child alive after the connection.
 */

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { ResponseError, StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import type { MessageConnection } from "vscode-jsonrpc/node";
import { PROTOCOL_VERSION } from "../../../protocol/typescript/wire.ts";
import type { DaemonTold, ErrorData, MethodName, Methods, SessionEvents } from "../../../protocol/typescript/wire.ts";
import { RpcError } from "../common/rpc.ts";
import type { Rpc } from "../common/rpc.ts";

export interface ClientIdentity {
  readonly name: string;
  readonly version: string;
  readonly decisionToken?: string;
  /** The client tells of its open documents, and may be asked to edit them. */
  readonly documents?: boolean;
}

/** It tells of its documents and takes edits of named versions of them. */
const DOCUMENTS = { workspace: { applyEdit: true, workspaceEdit: { documentChanges: true } }, textDocument: { synchronization: {} } };

export class Connection implements Rpc {
  private readonly connection: MessageConnection;
  private readonly listeners = new Set<(batch: SessionEvents) => void>();
  private readonly hearers = new Set<(notice: DaemonTold) => void>();
  readonly closed: Promise<void>;

  private constructor(input: Readable, output: Writable) {
    this.connection = createMessageConnection(new StreamMessageReader(input), new StreamMessageWriter(output));
    this.closed = new Promise((resolve) => this.connection.onClose(resolve));
    void this.closed.then(() => this.connection.dispose()); // what was asked and is not answered is refused now
    this.connection.onError(() => this.connection.end());
    this.connection.onNotification("session/events", (batch: SessionEvents) => {
      for (const listener of this.listeners) {
        listener(batch);
      }
    });
    this.connection.onNotification("daemon/told", (notice: DaemonTold) => {
      for (const hearer of this.hearers) {
        hearer(notice);
      }
    });
    this.connection.listen();
  }

  /** Shake hands over a pair of streams. */
  static async open(input: Readable, output: Writable, identity: ClientIdentity): Promise<Connection> {
    const opened = new Connection(input, output);
    await opened.request("initialize", {
      processId: process.pid,
      rootUri: null,
      capabilities: identity.documents === true ? DOCUMENTS : {},
      clientInfo: { name: identity.name, version: identity.version },
      initializationOptions: { protocolVersion: PROTOCOL_VERSION, decisionToken: identity.decisionToken ?? null },
    });
    await opened.connection.sendNotification("initialized", {});
    return opened;
  }

  call<M extends MethodName>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return this.request(method, params) as Promise<Methods[M]["result"]>;
  }

  onEvents(listener: (batch: SessionEvents) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** What the daemon tells every client: that nothing can be saved, that it is saved again. Returns what ends it. */
  onTold(hearer: (notice: DaemonTold) => void): () => void {
    this.hearers.add(hearer);
    return () => this.hearers.delete(hearer);
  }

  /** Tell something that is not answered, such as a change of an open document; nothing once the connection is closed. */
  tell(method: string, params: object): void {
    void (async () => {
      await this.connection.sendNotification(method, params);
    })().catch(() => undefined);
  }

  /** Answer what the daemon asks of this editor. */
  onAsked(method: string, answer: (params: unknown) => Promise<unknown>): void {
    this.connection.onRequest(method, answer);
  }

  /** Say goodbye as LSP wants it; never throws. */
  async close(): Promise<void> {
    try {
      await this.request("shutdown", null);
      await this.connection.sendNotification("exit");
    } catch {
      // it is closed already
    }
    this.connection.dispose();
  }

  private async request(method: string, params: object | null): Promise<unknown> {
    try {
      return await (params === null ? this.connection.sendRequest(method) : this.connection.sendRequest(method, params));
    } catch (error) {
      if (error instanceof ResponseError) {
        throw new RpcError(error.message, error.data as ErrorData | undefined);
      }
      throw error;
    }
  }
}

/** The program is not there, cannot run, or is no gloveport. */
export class StartError extends Error {
  override readonly name = "StartError";
}

function startWords(command: string, error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "ENOENT":
      return `There is no program ${command} here.`;
    case "EACCES":
      return `${command} is no program that may be run.`;
    default:
      return `${command} can't be started: ${error.message}.`;
  }
}

function endError(command: string, how: string | number | null, last: string): Error {
  return typeof how === "number" && last === ""
    ? new StartError(`${command} ended at once (${how}) without a word: it is no gloveport program.`)
    : new RpcError(`${command} ended (${how}). ${last}`.trim(), undefined);
}

/** What belongs to a program's end comes within so long, or is not waited for. */
const END_WITHIN_MS = 1_000;
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, END_WITHIN_MS).unref());

export interface Spawned {
  readonly connection: Connection;
  readonly child: ChildProcess;
}

/** Start the program that attaches to the daemon (or starts it), and shake hands over its standard streams. */
export async function spawnConnection(
  command: string,
  args: readonly string[],
  identity: ClientIdentity,
  onLog: (line: string) => void,
  environment: Readonly<Record<string, string>> = {},
): Promise<Spawned> {
  const child = spawn(command, [...args], { stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, ...environment } });
  let last = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    last = chunk.trimEnd().split("\n").at(-1) ?? "";
    onLog(chunk.trimEnd());
  });
  const told = new Promise((resolve) => child.stderr.once("close", resolve));
  child.stdin.on("error", () => undefined); // a dead child is told by its exit
  const died = new Promise<never>((_, reject) => {
    child.once("error", (error) => reject(new StartError(startWords(command, error))));
    child.once("exit", (code, signal) => {
      void Promise.race([told, pause()]).then(() => reject(endError(command, signal ?? code, last))); // its last words may come after it
    });
  });
  died.catch(() => undefined);
  try {
    return { connection: await Promise.race([Connection.open(child.stdout, child.stdin, identity), died]), child };
  } catch (error) {
    const isAnswer = error instanceof RpcError && error.data !== undefined; // else a pipe broke: how it ended says more
    const why: unknown = isAnswer
      ? error
      : await Promise.race([died, pause()]).then(
          () => error,
          (end: unknown) => end,
        );
    child.kill();
    throw why;
  }
}
