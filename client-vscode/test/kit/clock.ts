/** Pauses of the product, shortened alike. */

import type { Later } from "../../src/common/emitter.ts";

const FASTER = 100;

export const later: Later = (ms, run) => {
  const timer = setTimeout(run, ms / FASTER);
  return { dispose: () => clearTimeout(timer) };
};
