/**
 * The one link of this window to the daemon.
 *
 * Purpose: open it when it is first needed, again while anybody wants it, and say how it stands.
 * Invariant: one link at a time; every failure becomes words and something to do; whoever waits for it is answered.
 * Must never: stop the daemon, keep one alive that nobody asked for, or try again what only the user can mend.
 */

import { Emitter } from "./emitter.ts";
import type { Disposable, Later } from "./emitter.ts";
import type { LinkState } from "./panel.ts";
import type { Rpc } from "./rpc.ts";

const RETRY_FIRST_MS = 250;
const RETRY_MOST_MS = 15_000;
const AWAY = new Error("The window is closing.");
const ANOTHER = new Error("Another program was named meanwhile. Try again.");

export const IDLE: LinkState = { kind: "idle", words: "", actions: [] };

/** A link that was opened. */
export interface Line {
  readonly rpc: Rpc;
  /** Settles when the link is gone. */
  readonly closed: Promise<unknown>;
  /** Let go of it; never throws. */
  end(): void;
}

export interface LinkTools {
  readonly open: () => Promise<Line>;
  readonly later: Later;
  /** How a failure to open it stands, in words, with what can be done. */
  readonly explain: (error: unknown) => LinkState;
  readonly log: (words: string) => void;
}

export class Link implements Disposable {
  private pending: Promise<Line> | null = null;
  private held: LinkState = IDLE;
  private tries = 0;
  private timer: Disposable | null = null;
  private waitMs = RETRY_FIRST_MS;
  private disposed = false;
  private readonly opened = new Emitter<Rpc>();
  /** A link was opened: the first, or one after a loss. */
  readonly onOpened = this.opened.event;
  private readonly lost = new Emitter<void>();
  readonly onLost = this.lost.event;
  private readonly changed = new Emitter<LinkState>();
  readonly onState = this.changed.event;
  /** Whether anybody still wants the link after it was lost. */
  wanted: () => boolean = () => false;

  constructor(private readonly tools: LinkTools) {}

  get state(): LinkState {
    return this.held;
  }

  /** The link; every caller gets the same one. `quiet`: what is said of a lost or failed one stands until the end is known. */
  async connect(quiet = false): Promise<Rpc> {
    if (this.disposed) {
      throw AWAY;
    }
    this.stopTimer();
    this.pending ??= this.open(quiet || this.held.kind === "lost");
    return (await this.pending).rpc;
  }

  /** Try again now. */
  async retry(): Promise<void> {
    this.waitMs = RETRY_FIRST_MS;
    await this.connect().catch(() => undefined); // the state says what went wrong
  }

  /** Another program was named: let go of what the one before opened, or was to open, and begin anew where that is wanted. */
  async renew(): Promise<void> {
    const { pending } = this;
    if (this.held.kind === "ready" && pending !== null) {
      (await pending).end(); // as when it is lost
      return;
    }
    this.tries += 1;
    this.pending = null;
    if (this.held.kind !== "idle") {
      await this.retry();
    }
  }

  private async open(quiet: boolean): Promise<Line> {
    if (!quiet) {
      this.say({ kind: "starting", words: "Connecting to the daemon", actions: [] });
    }
    const mine = (this.tries += 1);
    let line: Line;
    try {
      line = await this.tools.open();
    } catch (error) {
      if (mine !== this.tries) {
        throw error; // of a program that is not the one any more
      }
      this.pending = null;
      this.tools.log(String(error));
      this.say(this.tools.explain(error));
      if (this.held.kind === "failed" && this.wanted()) {
        this.again(); // whoever asked for it: the user, a view, or the last try
      }
      throw error;
    }
    if (this.disposed || mine !== this.tries) {
      line.end();
      throw this.disposed ? AWAY : ANOTHER;
    }
    this.waitMs = RETRY_FIRST_MS;
    void line.closed.then(() => this.ended(line));
    this.say({ kind: "ready", words: "", actions: [] });
    this.opened.fire(line.rpc);
    return line;
  }

  private ended(line: Line): void {
    line.end();
    this.pending = null;
    if (this.disposed) {
      return;
    }
    this.tools.log("the connection ended");
    const wanted = this.wanted();
    this.say(wanted ? { kind: "lost", words: "Connection lost. Trying again", actions: [{ title: "Try now", verb: "retry" }] } : IDLE);
    this.lost.fire();
    if (wanted) {
      this.again();
    }
  }

  private again(): void {
    if (this.timer !== null || this.disposed) {
      return;
    }
    this.timer = this.tools.later(this.waitMs, () => {
      this.timer = null;
      this.connect(true).catch(() => undefined); // the state says what went wrong
    });
    this.waitMs = Math.min(this.waitMs * 2, RETRY_MOST_MS);
  }

  private stopTimer(): void {
    this.timer?.dispose();
    this.timer = null;
  }

  private say(state: LinkState): void {
    this.held = state;
    if (!this.disposed) {
      this.changed.fire(state);
    }
  }

  dispose(): void {
    this.disposed = true;
    this.stopTimer();
    void this.pending?.then((line) => line.end()).catch(() => undefined);
    this.pending = null;
    for (const emitter of [this.opened, this.lost, this.changed]) {
      emitter.dispose();
    }
  }
}
