/**
 * The daemon as the client's logic sees it.
 *
 * Purpose: typed calls and batches of events, whatever carries them.
 * Invariant: a call settles exactly once; listeners get batches in the order of the wire.
 * Must never: know a socket, a process or an editor.
 */

import type { ErrorData, MethodName, Methods, SessionEvents } from "../../../protocol/typescript/wire.ts";

export interface Rpc {
  call<M extends MethodName>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;
  /** Returns a function that ends the listening. */
  onEvents(listener: (batch: SessionEvents) => void): () => void;
}

/** The code of what is said when there is no such session (any more). */
export const GONE = "session.unknown";

/** An error reply: the stable code, and what to do next. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly data: ErrorData | undefined;

  constructor(message: string, data: ErrorData | undefined) {
    super(data === undefined ? message : `${message}${/[.!?:]$/.test(message) ? "" : "."} ${data.hint}`.trim());
    this.data = data;
  }
}
