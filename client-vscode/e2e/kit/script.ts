/**
 * Scripts for the scripted model.
 *
 * Purpose: what the model says to which words, as data beside the test that needs it.
 * Invariant: each scenario is found by a word of its own in the user's message.
 */

export interface Step {
  readonly when?: Readonly<Record<string, string | number | boolean>>;
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly arguments: unknown }[];
  readonly chunk_chars?: number;
  readonly delay_ms?: number;
  readonly wait_for_file?: string;
  readonly wait_after_chunks?: number;
  readonly error?: { readonly error_class: string; readonly message: string };
  readonly usage?: { readonly input_tokens: number; readonly output_tokens: number };
}

export interface Script {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** The steps of one scenario, in the order of the model's replies to the message that holds `word`. */
export function scene(word: string, ...replies: readonly Step[]): readonly Step[] {
  return replies.map((step, turn) => ({ ...step, when: { user_contains: word, turn, ...step.when } }));
}

export function call(name: string, given: unknown): { readonly name: string; readonly arguments: unknown } {
  return { name, arguments: given };
}
