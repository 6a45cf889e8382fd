/**
 * Telling several listeners.
 *
 * Purpose: what the editor's own event emitter is, for rooms that know no editor.
 * Invariant: listeners hear in the order in which they began to listen; whoever left hears nothing more.
 * Must never: know who listens.
 */

export interface Disposable {
  dispose(): void;
}

export type Event<T> = (listener: (value: T) => unknown) => Disposable;

export class Emitter<T> implements Disposable {
  private readonly listeners = new Set<{ readonly hear: (value: T) => unknown }>();

  readonly event: Event<T> = (hear) => {
    const listener = { hear };
    this.listeners.add(listener);
    return { dispose: () => void this.listeners.delete(listener) };
  };

  fire(value: T): void {
    for (const listener of [...this.listeners]) {
      if (this.listeners.has(listener)) {
        listener.hear(value);
      }
    }
  }

  dispose(): void {
    this.listeners.clear();
  }
}

/** Runs something after a time (milliseconds); what it returns calls it off. The platform gives it. */
export type Later = (ms: number, run: () => void) => Disposable;
