/** What a session is called that nobody gave a title, over real JSON-RPC. */

import { expect, test } from "vitest";
import { Link } from "../src/common/link.ts";
import { Sessions } from "../src/common/sessions.ts";
import { titleOf } from "../src/common/titles.ts";
import { sha256 } from "../src/node/digest.ts";
import { later } from "./kit/clock.ts";
import { SmallDaemon, dice } from "./kit/daemon.ts";

const POLL = { timeout: 4_000 };

test("the first words of the first message, read anew when the session changed; a title that was given stands", async () => {
  const daemon = new SmallDaemon(dice(1));
  daemon.calm = true;
  const [untitled, titled, silent] = ["1", "2", "3"].map((id) => daemon.session(id));
  untitled!.title = "w"; // the name of its folder
  silent!.title = "w";
  const say = (text: string): void => untitled!.tell([{ op: "upsert", item: "message/1", kind: "message.user", fields: { text, state: "done" } }]);
  say("mend the\n  till\n\nLook at: `till.py`");
  titled!.tell([{ op: "upsert", item: "message/2", kind: "message.user", fields: { text: "something else", state: "done" } }]);
  const link = new Link({
    open: () => daemon.open(),
    later,
    explain: (error) => ({ kind: "failed", words: String(error), actions: [] }),
    log: () => undefined,
  });
  const window = { roots: () => [], recall: () => undefined, remember: () => undefined };
  const faults: unknown[] = [];
  const sessions = new Sessions(link, window, { sha256, later, windowBytes: () => 1 << 20, onFault: (error) => faults.push(error) });
  const titles = (): readonly string[] => sessions.list.map((one) => one.title);
  await sessions.refresh();
  await expect.poll(titles, POLL).toEqual(["mend the till", "2", "w"]);
  say("It was erased.");
  await sessions.refresh();
  await expect.poll(titles, POLL).toEqual(["It was erased.", "2", "w"]);
  untitled!.title = "Till";
  await sessions.refresh();
  await expect.poll(titles, POLL).toEqual(["Till", "2", "w"]);
  expect(faults).toEqual([]);
  sessions.dispose();
  link.dispose();
});

test("a long first message is cut between words", () => {
  expect(titleOf("word ".repeat(40))).toBe(`${"word ".repeat(11)}word…`);
  expect(titleOf("x".repeat(100))).toBe(`${"x".repeat(60)}…`);
});
