/** What a card says and hears: how it ended, and when keys and clicks count. */

import { describe, expect, test } from "vitest";
import { Elsewhere, answeredLine } from "../src/common/answered.ts";
import { DEAF_MS, Deaf } from "../src/common/deaf.ts";
import type { Place } from "../src/common/deaf.ts";
import { grouped } from "../src/common/words.ts";
import { clock } from "../src/webview/clock.ts";

const AT = Date.UTC(2026, 10, 30, 9, 41) * 1000;
const TODAY = AT / 1000 + 3_600_000;
const SEQ = `#${grouped(1302)}`;
const CLOCK = new Date(AT / 1000).toLocaleTimeString("de", { hour: "2-digit", minute: "2-digit" });
const line = (state: string, by: string, more = {}, elsewhere = false) =>
  answeredLine({ state, by, answeredAt: AT, answeredSeq: 1302, ...more }, elsewhere, (at) => clock(at, TODAY, "de"));

describe("an answered card", () => {
  test("says who, when and where in the log", () => {
    expect(line("allowed", "vscode", { scope: "once" })).toMatchObject({ words: "Allowed once", meta: `you · ${CLOCK} · ${SEQ}` });
    expect(line("denied", "gloveport-cli").meta).toBe(`you, terminal · ${CLOCK} · ${SEQ}`);
    expect(line("allowed", "neovim", { scope: "session" })).toMatchObject({ words: "Allowed this session", meta: `neovim · ${CLOCK} · ${SEQ}` });
  });

  test("on another day, its day too", () => {
    const later = clock(AT, TODAY + 3 * 86_400_000, "de");
    expect(later).toContain("30. Nov");
    expect(later).toContain(CLOCK);
  });

  test("that nobody answered says why, and names nobody", () => {
    expect(line("superseded", "steering")).toMatchObject({ words: "The goal changed. Nothing ran", meta: `${CLOCK} · ${SEQ}` });
    expect(line("withdrawn", "stop").words).toBe("Stopped. Nothing ran");
    expect(line("expired", "vscode").words).toBe("Expired. Nothing ran");
    expect(line("superseded", "vscode").words).toBe("Asked again: something changed");
  });

  test("of a record without time or seq says neither", () => {
    expect(answeredLine({ state: "allowed", by: "vscode", scope: "once" }, false, String).meta).toBe("you");
  });

  test("in another window is told only where this window saw it wait and did not answer", () => {
    const pending = { state: "pending" };
    const allowed = { state: "allowed", by: "vscode" };
    const known = new Elsewhere();
    known.answers("approval/1");
    known.sees("approval/1", pending, allowed);
    known.sees("approval/2", pending, allowed);
    known.sees("approval/3", undefined, allowed); // it came with what had happened before
    known.sees("approval/4", pending, { state: "denied", by: "gloveport-cli" });
    known.sees("approval/5", pending, { state: "superseded", by: "steering" });
    known.sees("approval/6", pending, { cardDigest: "x", state: "pending" });
    expect([1, 2, 3, 4, 5, 6].filter((one) => known.has(`approval/${one}`))).toEqual([2]);
    expect(line("allowed", "vscode", { scope: "once" }, true).words).toBe("Allowed in another window");
    expect(line("allowed", "vscode", { scope: "session" }, true).words).toBe("Allowed in another window, this session");
    expect(line("denied", "vscode", {}, true).words).toBe("Denied in another window");
  });
});

describe("deafness", () => {
  const place = (top: number): Place => [10, top, 300, 28];

  test("a card hears nothing right after it appeared, and then it does", () => {
    const deaf = new Deaf(0);
    expect(deaf.hears(place(50), 20)).toBe(false);
    expect(deaf.hears(place(50), 20 + DEAF_MS - 1)).toBe(false);
    expect(deaf.hears(place(50), 20 + DEAF_MS)).toBe(true);
  });

  test("one that nobody looked at since it appeared is deaf at the first look", () => {
    expect(new Deaf(0).hears(place(50), 10 * DEAF_MS)).toBe(false);
  });

  test("one that moved is deaf again, also when the move is seen with the click; rounding is no move", () => {
    const deaf = new Deaf(0);
    deaf.hears(place(50), 0);
    expect(deaf.hears(place(50.4), 2 * DEAF_MS)).toBe(true);
    expect(deaf.hears(place(90), 3 * DEAF_MS)).toBe(false);
    expect(deaf.hears(place(90), 4 * DEAF_MS - 1)).toBe(false);
    expect(deaf.hears(place(90), 4 * DEAF_MS)).toBe(true);
    expect(deaf.hears([10, 90, 200, 28], 5 * DEAF_MS)).toBe(false); // a narrower panel
  });
});
