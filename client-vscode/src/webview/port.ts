/**
 * The panel's end of the wire to the extension.
 *
 * Purpose: send typed messages, and keep what the user typed while the panel is hidden.
 * Invariant: the editor's handle is taken once.
 * Must never: send a message of another shape than `FromPanel`.
 */

import type { Attachment, FromPanel } from "../common/panel.ts";

interface Kept {
  readonly draft: string;
  readonly attachments: readonly Attachment[];
}

interface Editor {
  postMessage(message: FromPanel): void;
  getState(): Kept | undefined;
  setState(state: Kept): void;
}

declare function acquireVsCodeApi(): Editor;

const editor = acquireVsCodeApi();

export function send(message: FromPanel): void {
  editor.postMessage(message);
}

export function kept(): Kept {
  return editor.getState() ?? { draft: "", attachments: [] };
}

export function keep(state: Kept): void {
  editor.setState(state);
}
