/** Words of the panel and its trees. */

import { expect, test } from "vitest";
import { clock } from "../src/common/words.ts";

const HOUR = 3_600_000;

test("a time of today is a time; one of another day names the day", () => {
  const noon = new Date(2026, 2, 4, 12, 5).getTime();
  expect(clock(noon, noon + HOUR, "en-GB")).toBe("12:05");
  expect(clock(noon, noon + 24 * HOUR, "en-GB")).toBe("4 Mar, 12:05");
});
