/**
 * Notifications and questions of the window.
 *
 * Purpose: the one door through which words reach the window's messages.
 * Invariant: words of data are plain text there, whatever they look like.
 * Must never: offer to allow.
 */

import * as vscode from "vscode";
import { noticeText } from "../common/plain.ts";

/** A failure, in words. */
export function tellError(words: string): void {
  void vscode.window.showErrorMessage(noticeText(words));
}

export function tellInformation(words: string): void {
  void vscode.window.showInformationMessage(noticeText(words));
}

/** A notification with buttons: the one that was pressed, undefined when it was closed. */
export function offer<B extends string>(words: string, ...buttons: readonly B[]): Thenable<B | undefined> {
  return vscode.window.showInformationMessage(noticeText(words), ...buttons);
}

/** The same, for what should not wait. */
export function warn<B extends string>(words: string, ...buttons: readonly B[]): Thenable<B | undefined> {
  return vscode.window.showWarningMessage(noticeText(words), ...buttons);
}

/** A question before something that can't be undone or leads outside; undefined when the user turned back. */
export function confirm<B extends string>(question: string, detail: string, button: B): Thenable<B | undefined> {
  return vscode.window.showWarningMessage(noticeText(question), { modal: true, detail }, button);
}

/** Words to be read, with ways on where there are some. */
export function show<B extends string>(title: string, detail: string, ...buttons: readonly B[]): Thenable<B | undefined> {
  return vscode.window.showInformationMessage(noticeText(title), { modal: true, detail }, ...buttons);
}
