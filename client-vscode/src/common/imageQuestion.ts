/**
 * The question whether a session's containers show the image that the folder asks for.
 *
 * Purpose: from what the daemon read of a folder's devcontainer.json to title and words of a native question.
 * Invariant: registry, name and digest are in the words, and everything of the file that is ignored.
 * Must never: ask where the chosen sandbox has no such image, or choose.
 */

import type { DevContainerResult } from "../../../protocol/typescript/wire.ts";
import { reveal } from "./hidden.ts";

export interface ImageQuestion {
  readonly title: string;
  readonly detail: string;
  readonly reference: string;
}

/** Null where there is nothing to ask: no file, no image, or none that this sandbox has. */
export function imageQuestion(asked: DevContainerResult, sandbox: string): ImageQuestion | null {
  const { image } = asked;
  if (image === null || !image.sandboxes.includes(sandbox)) {
    return null;
  }
  return {
    title: `Use the image ${reveal(image.name)} of ${reveal(image.registry)}?`,
    detail: reveal(asked.words, "lines"),
    reference: image.reference,
  };
}
