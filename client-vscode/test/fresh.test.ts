/** What is chosen before the first message: it is in force before the first turn, for one session, of the right model. */

import { describe, expect, test } from "vitest";
import type { ModelInfo } from "../../protocol/typescript/wire.ts";
import { Fresh, isKeyName, keyRows, modelRows } from "../src/common/fresh.ts";
import type { Rpc } from "../src/common/rpc.ts";

const LABEL = "OpenAI-compatible model at 127.0.0.1:9";
const MODELS: readonly ModelInfo[] = [
  { provider: "openai", model: "qwen3-coder", label: LABEL, keyEnv: "MY_KEY" },
  { provider: "openai", model: "qwen3-small", label: LABEL, keyEnv: "MY_KEY" },
  { provider: "anthropic", model: "own", label: "Anthropic", keyEnv: "ANTHROPIC_API_KEY" },
  { provider: "scripted", model: "demo", label: "Script", keyEnv: "" },
];

/** A daemon that keeps what it is asked, and refuses some of it. */
function asked(refuses = "", models = MODELS): { readonly calls: (readonly [string, object])[]; readonly rpc: Pick<Rpc, "call"> } {
  const calls: (readonly [string, object])[] = [];
  const call = (method: string, params: object): Promise<unknown> => {
    calls.push([method, params]);
    const answers: Readonly<Record<string, object>> = {
      "model/list": { models, settingsPath: "/c/config.toml" },
      "session/start": { sessionId: "s1" },
    };
    return method === refuses ? Promise.reject(new Error("refused")) : Promise.resolve(answers[method] ?? {});
  };
  return { calls, rpc: { call } as Pick<Rpc, "call"> };
}

const request = (): string => "r";

describe("the session that the first message begins", () => {
  test("has the model, the sandbox and the mode that were chosen, and the next one has not", async () => {
    const fresh = new Fresh();
    fresh.choose({ mode: "plan" });
    fresh.choose({ sandbox: "docker", model: { provider: "openai", model: "qwen3-small" } });
    const { calls, rpc } = asked();
    await fresh.begin(rpc, "/w", request);
    expect(calls).toEqual([
      ["session/start", { clientRequestId: "r", root: "/w", provider: "openai", model: "qwen3-small", sandbox: "docker" }],
      ["session/mode", { clientRequestId: "r", sessionId: "s1", mode: "plan" }],
    ]);
    fresh.spend();
    const next = asked();
    await fresh.begin(next.rpc, "/w", request);
    expect(next.calls).toEqual([["session/start", { clientRequestId: "r", root: "/w" }]]);
  });

  test("does not stay where it can't be a plan, and what was chosen stays for another try", async () => {
    const fresh = new Fresh();
    fresh.choose({ mode: "plan" });
    const { calls, rpc } = asked("session/mode");
    await expect(fresh.begin(rpc, "/w", request)).rejects.toThrow("refused");
    expect(calls.at(-1)).toEqual(["session/delete", { clientRequestId: "r", sessionId: "s1" }]);
    expect(fresh.picture.mode).toBe("plan");
  });

  test("is pictured with the model that would answer: the chosen one, else the first that is the user's", async () => {
    const fresh = new Fresh();
    expect(fresh.picture).toEqual({ model: "", modelLabel: "", mode: "agent", sandbox: "", noModelIn: "" });
    await fresh.learn(asked().rpc);
    expect([fresh.picture.model, fresh.picture.modelLabel]).toEqual(["qwen3-coder", LABEL]);
    fresh.choose({ model: { provider: "anthropic", model: "own" } });
    expect(fresh.picture.model).toBe("own");
    await fresh.learn(asked("", MODELS.slice(3)).rpc);
    expect(fresh.picture).toMatchObject({ model: "", noModelIn: "/c/config.toml" });
  });
});

describe("models to choose from", () => {
  test("two of one server are told apart by their names, and one is in use", () => {
    const rows = modelRows(MODELS, { provider: "openai", model: "qwen3-small" });
    expect(rows.slice(0, 3).map(({ label, description, detail }) => [label, description, detail])).toEqual([
      ["qwen3-coder", "openai", LABEL],
      ["qwen3-small", "openai, in use", LABEL],
      ["own", "anthropic", "Anthropic"],
    ]);
    expect(modelRows(MODELS, null).some(({ description }) => description.includes("in use"))).toBe(false);
  });

  test("a key is kept for each variable that the settings name, once, and for none that changes a program", () => {
    const odd = ["LD_PRELOAD", "PATH", "PYTHONPATH", "NODE_OPTIONS", "A B", ""].map((keyEnv) => ({ provider: "p", model: "m", label: "", keyEnv }));
    expect(keyRows([...MODELS, ...odd]).map(({ label, variable }) => [label, variable])).toEqual([
      ["OpenAI", "OPENAI_API_KEY"],
      ["Anthropic", "ANTHROPIC_API_KEY"],
      ["qwen3-coder, qwen3-small", "MY_KEY"],
    ]);
    expect(isKeyName("GLOVEPORT_MINE")).toBe(true);
  });
});
