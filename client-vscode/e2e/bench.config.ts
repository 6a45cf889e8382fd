import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["e2e/**/*.bench.ts"], fileParallelism: false, testTimeout: 240_000, disableConsoleIntercept: true },
});
