import { defineConfig } from "vitest/config";

// One browser at a time; a failure is a failure: nothing is tried again.
export default defineConfig({
  test: {
    include: ["e2e/**/*.e2e.ts"],
    fileParallelism: false,
    testTimeout: 400_000,
    hookTimeout: 400_000,
    retry: 0,
    bail: 1,
    reporters: ["verbose"],
  },
});
