/**
 * Processes of the tests.
 *
 * Purpose: start a program in a group of its own and end that group; wait for a condition with its name.
 * Invariant: only what was started here is ended, by its group or by the pid that its own lock file names.
 * Must never: wait for a fixed time instead of a condition.
 */

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";

/** Long: a machine that does other things too is slow, not wrong. */
export const WAIT_MS = 60_000;
/** A wait that is longer is told, for who looks where the time goes. */
const SLOW_MS = 4_000;

export async function until<T>(what: string, look: () => T | Promise<T>, ms = WAIT_MS): Promise<NonNullable<T>> {
  const begin = Date.now();
  const end = begin + ms;
  for (;;) {
    const found = await look();
    if (found !== false && found !== null && found !== undefined) {
      if (Date.now() - begin > SLOW_MS) {
        console.log(`waited ${Date.now() - begin} ms for ${what}`);
      }
      return found;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${ms} ms for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function startGroup(command: string, args: readonly string[], env: NodeJS.ProcessEnv, log: number): ChildProcess {
  return spawn(command, [...args], { env, stdio: ["ignore", log, log], detached: true });
}

export async function endGroup(child: ChildProcess): Promise<void> {
  const { pid } = child;
  if (pid === undefined) {
    return;
  }
  const gone = new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve(null)));
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    try {
      process.kill(-pid, signal);
    } catch {
      return; // the group is gone
    }
    await Promise.race([gone, new Promise((resolve) => setTimeout(resolve, 4000))]);
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
