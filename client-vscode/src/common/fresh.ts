/**
 * What the first message begins with.
 *
 * Purpose: mode, model and sandbox as chosen before there is a session, and the models there are to choose from.
 * Invariant: what was chosen is in force before the first turn, or no session began; it counts for one session.
 * Must never: take a model for another one because both are described alike.
 */

import type { ModelInfo, SessionInfo } from "../../../protocol/typescript/wire.ts";
import { Emitter } from "./emitter.ts";
import type { FreshPicture, Mode } from "./panel.ts";
import type { Rpc } from "./rpc.ts";

/** A model by its names, which tell it apart. */
export interface ModelNames {
  readonly provider: string;
  readonly model: string;
}

interface Chosen {
  readonly mode: Mode;
  readonly model: ModelNames | null;
  readonly sandbox: string;
}

const NOTHING: Chosen = { mode: "agent", model: null, sandbox: "" };
/** The demo's script: it plays only where it is named. */
const DEMO: ModelNames = { provider: "scripted", model: "demo" };
/** Models whose key may be kept though none of them is set up yet. */
const OWN_KEYS: readonly KeyRow[] = [
  { label: "OpenAI", description: "OPENAI_API_KEY", variable: "OPENAI_API_KEY" },
  { label: "Anthropic", description: "ANTHROPIC_API_KEY", variable: "ANTHROPIC_API_KEY" },
];
/** Variables that are no keys, whatever the settings of models say: they change how a program runs. */
const NO_KEYS = /^(LD_|DYLD_|PYTHON|NODE_|BASH_|GIT_|SSH_|XDG_|PATH$|HOME$|SHELL$|ENV$|IFS$)/;

/** What a file without a model begins with, as a snippet of the editor. */
export const EXAMPLE = [
  "# A model: gloveport uses the first one that stands here.",
  "[[models]]",
  'provider = "${1:openai}"',
  'model = "${2:qwen3-coder}"',
  'base_url = "${3:http://127.0.0.1:11434/v1}"',
  '# key_env = "MY_KEY"   the variable that holds its key; Gloveport: Keep a Model\'s Key keeps one',
  "",
].join("\n");

export interface KeyRow {
  readonly label: string;
  readonly description: string;
  readonly variable: string;
}

export function isSame(one: ModelNames, other: ModelNames): boolean {
  return one.provider === other.provider && one.model === other.model;
}

export interface ModelRow {
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  readonly one: ModelInfo;
}

/** Models to choose from, each by its name; one row at most is in use. */
export function modelRows(models: readonly ModelInfo[], inUse: ModelNames | null): readonly ModelRow[] {
  return models.map((one) => ({
    label: one.model,
    description: inUse !== null && isSame(one, inUse) ? `${one.provider}, in use` : one.provider,
    detail: one.label,
    one,
  }));
}

/** Whose key can be kept: the providers', then those that the settings of models name. */
export function keyRows(models: readonly ModelInfo[]): readonly KeyRow[] {
  const named = new Map<string, string[]>();
  for (const { keyEnv = "", model } of models) {
    if (isKeyName(keyEnv) && !OWN_KEYS.some((own) => own.variable === keyEnv)) {
      named.set(keyEnv, [...(named.get(keyEnv) ?? []), model]);
    }
  }
  return [...OWN_KEYS, ...[...named].map(([variable, of]) => ({ label: of.join(", "), description: variable, variable }))];
}

/** Whether a variable of this name may be given to the program as a key. */
export function isKeyName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !NO_KEYS.test(name);
}

export class Fresh {
  private chosen = NOTHING;
  private known: readonly ModelInfo[] | null = null;
  private path = "";
  private readonly changed = new Emitter<void>();
  readonly onChange = this.changed.event;

  /** Ask which models there are. */
  async learn(rpc: Pick<Rpc, "call">): Promise<readonly ModelInfo[]> {
    const { models, settingsPath = "" } = await rpc.call("model/list", {});
    this.known = models;
    this.path = settingsPath;
    this.changed.fire();
    return models;
  }

  /** The models as far as they are known. */
  get models(): readonly ModelInfo[] {
    return this.known ?? [];
  }

  /** The file in which the user sets models up; empty while it is not known. */
  get settingsPath(): string {
    return this.path;
  }

  choose(part: Partial<Chosen>): void {
    this.chosen = { ...this.chosen, ...part };
    this.changed.fire();
  }

  get mode(): Mode {
    return this.chosen.mode;
  }

  get sandbox(): string {
    return this.chosen.sandbox;
  }

  /** The model that would be used; null where none is set up, or it is not known. */
  get model(): ModelInfo | null {
    const { model } = this.chosen;
    const picked = model === null ? undefined : this.models.find((one) => isSame(one, model));
    return picked ?? this.models.find((one) => !isSame(one, DEMO)) ?? null;
  }

  get picture(): FreshPicture {
    const { model, mode, sandbox } = this;
    return {
      model: model?.model ?? "",
      modelLabel: model?.label ?? "",
      mode,
      sandbox,
      noModelIn: this.known !== null && model === null ? this.path || "config.toml" : "",
    };
  }

  /** Begin a session with what was chosen; one that can't have it is deleted again. */
  async begin(rpc: Pick<Rpc, "call">, root: string, request: () => string): Promise<SessionInfo> {
    const { model, sandbox, mode } = this.chosen;
    const session = await rpc.call("session/start", {
      clientRequestId: request(),
      root,
      ...(model !== null && { provider: model.provider, model: model.model }),
      ...(sandbox !== "" && { sandbox }),
    });
    if (mode !== "agent") {
      try {
        await rpc.call("session/mode", { clientRequestId: request(), sessionId: session.sessionId, mode });
      } catch (error) {
        await rpc.call("session/delete", { clientRequestId: request(), sessionId: session.sessionId });
        throw error;
      }
    }
    return session;
  }

  /** What was chosen is spent: the next session begins as any other. */
  spend(): void {
    this.chosen = NOTHING;
    this.changed.fire();
  }
}
