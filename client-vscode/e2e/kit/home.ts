/**
 * A daemon's home for tests, and its workspaces.
 *
 * Purpose: settings with a scripted model, folders to work in, and the daemon that the extension starts there.
 * Invariant: everything lies in one short folder under /tmp that is removed at the end.
 * Must never: stand in for the daemon.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { spawnConnection } from "../../src/node/connection.ts";
import type { Spawned } from "../../src/node/connection.ts";
import { isAlive, until } from "./processes.ts";
import type { Script } from "./script.ts";

export const CLIENT = resolve(import.meta.dirname, "../..");
export const TREE = resolve(CLIENT, "..");

function findPython(): string {
  const named = [
    process.env["GLOVEPORT_PYTHON"],
    join(TREE, ".venv/bin/python"),
    process.env["VIRTUAL_ENV"] && join(process.env["VIRTUAL_ENV"], "bin/python"),
  ];
  return named.find((path) => path !== undefined && path !== "" && existsSync(path)) ?? "python3";
}

export const PYTHON = findPython();
export const LSP = ["-P", "-m", "gloveport.server", "lsp"];

export class Home {
  readonly dir = mkdtempSync("/tmp/gpe-");
  readonly data = join(this.dir, "d");

  /** `others`: scripts of further models, by their names; `settings`: more of the daemon's settings, as TOML. */
  constructor(
    script: Script,
    { others = {}, settings = "" }: { readonly others?: Readonly<Record<string, Script>>; readonly settings?: string } = {},
  ) {
    mkdirSync(this.data, { mode: 0o700 });
    const models = Object.entries({ test: script, ...others }).map(([model, steps]) => {
      const path = join(this.data, model === "test" ? "script.json" : `${model}.json`);
      writeFileSync(path, JSON.stringify(steps));
      return `[[models]]\nprovider = "scripted"\nmodel = "${model}"\nscript = "${path}"\n`;
    });
    writeFileSync(join(this.data, "config.toml"), [...models, settings].join(""));
  }

  /** What a process of this home has in its environment. */
  get environment(): NodeJS.ProcessEnv {
    const roots = ["protocol", "sandbox", "server"].map((name) => join(TREE, name)).join(":");
    return { PATH: process.env["PATH"], HOME: this.dir, LANG: "C.UTF-8", GLOVEPORT_HOME: this.data, PYTHONPATH: roots };
  }

  /** Let a reply of the script that waits for this file go on. */
  release(name: string): void {
    writeFileSync(join(this.data, name), "");
  }

  /** A folder with these files, under version control as real ones are. */
  workspace(name: string, files: Readonly<Record<string, string>>): string {
    const root = join(this.dir, name);
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    const git = (...args: readonly string[]): Buffer =>
      execFileSync("git", ["-C", root, "-c", "user.name=t", "-c", "user.email=t@example.org", ...args]);
    git("init", "-q");
    git("add", "-A");
    git("commit", "-q", "-m", "begin");
    return root;
  }

  /** A connection beside the editor's, with the same rights. */
  async connect(): Promise<Spawned> {
    const before = process.env;
    process.env = { ...this.environment };
    try {
      return await spawnConnection(PYTHON, LSP, { name: "e2e", version: "0" }, () => undefined);
    } finally {
      process.env = before;
    }
  }

  /** The daemon's pid as its lock file names it; null when none runs. */
  get daemonPid(): number | null {
    try {
      const { pid } = JSON.parse(readFileSync(join(this.data, "daemon.lock"), "utf8")) as { readonly pid: number };
      return pid > 0 && isAlive(pid) ? pid : null; // 0: it ended in good order
    } catch {
      return null;
    }
  }

  /** Kill what keeps the only run, so that nobody records its end. */
  async killKeeper(): Promise<void> {
    const runs = join(this.data, "runs");
    const pid = await until("a run to be kept", () => {
      const found = readdirSync(runs, { recursive: true, encoding: "utf8" }).filter((name) => /\/turn-[^/]*\/status\.json$/.test(name));
      const pids = found.map((name) => (JSON.parse(readFileSync(join(runs, name), "utf8")) as { readonly supervisor_pid: number }).supervisor_pid);
      return pids.find((one) => one > 0 && isAlive(one));
    });
    process.kill(pid, "SIGKILL");
  }

  async killDaemon(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const pid = this.daemonPid;
    if (pid !== null) {
      process.kill(pid, signal);
      await until("the daemon to end", () => !isAlive(pid));
    }
  }

  async end(): Promise<void> {
    await this.killDaemon("SIGTERM");
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
