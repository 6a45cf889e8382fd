/**
 * Test results in the Test Explorer.
 *
 * Purpose: publish what a run of the agent reported; runs begin with the agent alone.
 * Invariant: a result is shown as what the code under test reported, once; after a reload the newest run of the session
 * that is shown stands there again.
 * Must never: start tests, or make a result better than its report.
 */

import { join } from "node:path";
import * as vscode from "vscode";
import type { Disposable } from "../common/emitter.ts";
import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { subs } from "../common/cardModel.ts";
import { reveal } from "../common/hidden.ts";
import { labelText } from "../common/plain.ts";
import { num, str } from "../common/toolRow.ts";
import type { Fields } from "../common/toolRow.ts";
import type { Followed } from "../common/followed.ts";
import type { Sessions } from "../common/sessions.ts";

export class TestResults implements vscode.Disposable {
  private readonly controller = vscode.tests.createTestController("gloveport", "Gloveport");
  private readonly published = new Set<string>();
  private loading: Disposable | undefined;
  private readonly parts: readonly Disposable[];

  constructor(sessions: Sessions) {
    this.parts = [
      sessions.onEvents(({ session, events }) => {
        for (const { ops } of events.filter(({ type }) => type === "TestRunFinished")) {
          for (const op of ops) {
            const item = typeof op["item"] === "string" ? session.view?.find(op["item"]) : undefined;
            if (item !== undefined) {
              this.publish(session, item);
            }
          }
        }
      }),
      sessions.onSwitch((session) => {
        this.loading?.dispose();
        this.loading = session?.onLoad(() => this.publishNewest(session));
        if (session !== null) {
          this.publishNewest(session);
        }
      }),
    ];
  }

  private publishNewest(session: Followed): void {
    const item = session.view?.items().findLast(({ kind }) => kind === "tests");
    if (item !== undefined) {
      this.publish(session, item);
    }
  }

  /** Publish one run's results; a run that was published stays as it is. */
  private publish(session: Followed, item: ViewItem): void {
    if (this.published.has(`${session.id} ${item.id}`)) {
      return;
    }
    this.published.add(`${session.id} ${item.id}`);
    const root = session.beside.detail?.info.root ?? "";
    const run = this.controller.createTestRun(new vscode.TestRunRequest(), `Gloveport, ${str(item.fields, "framework")}`, false);
    for (const one of subs(item.fields, "cases")) {
      this.report(run, root, one);
    }
    const counts = (["passed", "failed", "errors", "skipped"] as const).map((name) => `${num(item.fields, name) ?? 0} ${name}`);
    run.appendOutput(`${counts.join(", ")}\r\nAs the code under test reported it, in the session’s copy of the folder.\r\n`);
    run.end();
  }

  private report(run: vscode.TestRun, root: string, one: Fields): void {
    const item = this.itemOf(root, str(one, "name"));
    const took = (num(one, "duration_us") ?? 0) / 1000;
    const message = new vscode.TestMessage(reveal(str(one, "message"), "lines") || "It gave no message.");
    run.started(item);
    switch (str(one, "status")) {
      case "passed":
        run.passed(item, took);
        break;
      case "skipped":
        run.skipped(item);
        break;
      case "error":
        run.errored(item, message, took);
        break;
      default:
        run.failed(item, message, took);
    }
  }

  private itemOf(root: string, name: string): vscode.TestItem {
    const [file = name, ...rest] = name.split("::");
    const uri = rest.length === 0 || root === "" ? undefined : vscode.Uri.file(join(root, file));
    const parent = this.child(this.controller.items, file, file, uri);
    return rest.length === 0 ? parent : this.child(parent.children, name, rest.join(" › "), uri);
  }

  private child(items: vscode.TestItemCollection, id: string, label: string, uri: vscode.Uri | undefined): vscode.TestItem {
    const held = items.get(id) ?? this.controller.createTestItem(id, labelText(label), uri); // a name is data of the code under test
    items.add(held);
    return held;
  }

  dispose(): void {
    this.loading?.dispose();
    vscode.Disposable.from(...this.parts, this.controller).dispose();
  }
}
