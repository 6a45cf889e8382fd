/** Each method of the wire is asked for somewhere in this client, or stands here with the reason why it is not. */

import { readFileSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";

/** What the window does not ask for, and why nobody misses it there. */
const NOT_ASKED: Readonly<Record<string, string>> = {
  "approval/list": "cards are items of the view, which the window holds",
  "audit/export": "the whole log as a file is the command line's, for programs that read it",
  "change/document": "for editors that show a proposal by an address: here the sides come with change/hunks",
  "change/preview": "a unified diff is for terminals: here proposals stand in the editor's own comparison",
  "plan/show": "the plan is an item of the view",
  "sample/list": "records for evaluation are the command line's, for programs that read them",
  "session/export": "events as stored are the command line's, for programs that read them",
};

const sources = ["common", "node", "vscode", "webview"]
  .flatMap((folder) => readdirSync(`src/${folder}`).map((name) => readFileSync(`src/${folder}/${name}`, "utf8")))
  .join("\n");

function methods(): readonly string[] {
  const wire = readFileSync("../protocol/typescript/wire.ts", "utf8");
  return [...wire.matchAll(/^ {2}readonly "([a-z]+(?:\/[a-zA-Z]+)+)": \{ readonly params/gm)].map((found) => found[1] ?? "");
}

/** Asked for by its name, or by a name of which the last part is chosen: `change/${action}`. */
function isAsked(method: string): boolean {
  const room = method.slice(0, method.lastIndexOf("/"));
  const chosen = room === "change" && /call\(`change\/\$\{action\}`/.test(sources) && /"accept" \| "reject"/.test(sources);
  return new RegExp(`call\\(\\s*"${method}"`).test(sources) || (chosen && ["change/accept", "change/reject"].includes(method));
}

test("every method of the wire is used, or its absence has a reason", () => {
  const all = methods();
  expect(all.length).toBeGreaterThan(50);
  expect(all.filter((one) => !isAsked(one)).sort()).toEqual(Object.keys(NOT_ASKED).sort());
});
