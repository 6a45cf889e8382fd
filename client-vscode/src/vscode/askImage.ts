/**
 * The question for the image that a folder asks for.
 *
 * Purpose: whether a session's containers show that image, asked where a sandbox was chosen that has it.
 * Invariant: the user's answer decides; nothing is asked where there is nothing to choose.
 * Must never: choose an image by itself.
 */

import { imageQuestion } from "../common/imageQuestion.ts";
import type { Rpc } from "../common/rpc.ts";
import { show } from "./tell.ts";

const USE_IMAGE = "Use This Image";
const OWN_PROGRAMS = "Without It";

/** The image to use, empty for none; undefined when the user turned back. */
export async function askImage(connection: Pick<Rpc, "call">, sessionId: string, sandbox: string): Promise<string | undefined> {
  const image = imageQuestion(await connection.call("sandbox/devcontainer", { sessionId }), sandbox);
  if (image === null) {
    return "";
  }
  const answer = await show(image.title, image.detail, USE_IMAGE, OWN_PROGRAMS);
  return answer === undefined ? undefined : answer === USE_IMAGE ? image.reference : "";
}
