/**
 * An approval card as the panel asks it.
 *
 * Purpose: read the card of the wire, and say what each answer would allow.
 * Invariant: the sentence comes from the right that would be issued; an answer names an option of the card or narrows it.
 * Must never: widen, invent a scope, or leave out a part of the command.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import type { Answer } from "./panel.ts";
import { num, str } from "./toolRow.ts";
import type { Fields } from "./toolRow.ts";
import { lifetime } from "./words.ts";

export const SCOPES = ["once", "turn", "session", "workspace"] as const;
export type Scope = (typeof SCOPES)[number];

export const SCOPE_WORDS: Readonly<Record<Scope, string>> = { once: "Once", turn: "This turn", session: "This session", workspace: "This workspace" };

export interface Option {
  /** Index on the card. */
  readonly index: number;
  readonly scope: Scope;
  readonly sentence: string;
  readonly uses: number | null;
  readonly lifetimeS: number;
}

export interface Choice {
  readonly scope: Scope;
  /** Which of the scope's options, widest reach last as the card has them. */
  readonly variant: number;
  readonly uses: number | null;
  readonly lifetimeS: number | null;
}

export const FIRST: Choice = { scope: "once", variant: 0, uses: null, lifetimeS: null };

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function sub(fields: Fields, name: string): Fields | null {
  const value = fields[name];
  return isFields(value) ? value : null;
}

export function subs(fields: Fields, name: string): readonly Fields[] {
  const value = fields[name];
  return Array.isArray(value) ? value.filter(isFields) : [];
}

export function texts(fields: Fields, name: string): readonly string[] {
  const value = fields[name];
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

export function optionsOf(card: Fields): readonly Option[] {
  return subs(card, "options").flatMap((one, index) => {
    const scope = SCOPES.find((name) => name === str(one, "scope"));
    return scope === undefined
      ? []
      : [{ index, scope, sentence: str(one, "sentence"), uses: num(one, "uses"), lifetimeS: num(one, "lifetime_s") ?? 0 }];
  });
}

/** The options of one scope, as the card orders them. */
export function variantsOf(card: Fields, scope: Scope): readonly Option[] {
  return optionsOf(card).filter((one) => one.scope === scope);
}

/** Why a scope is not offered; empty for one that is. */
export function refusedReason(card: Fields, scope: Scope): string {
  if (variantsOf(card, scope).length > 0) {
    return "";
  }
  return str(subs(card, "refused_scopes").find((one) => str(one, "scope") === scope) ?? {}, "reason") || "not offered";
}

/** What tells the options of one scope apart: their sentences without the clauses that all of them end with. */
export function variantWords(options: readonly Option[]): readonly string[] {
  const parts = options.map((one) => one.sentence.split(", "));
  const shortest = Math.min(...parts.map((one) => one.length));
  let shared = 0;
  while (shared < shortest - 1 && new Set(parts.map((one) => one.at(-1 - shared))).size === 1) {
    shared += 1;
  }
  return parts.map((one) => one.slice(0, one.length - shared).join(", "));
}

/** The right that an answer would issue, in a sentence. */
export function allowSentence(card: Fields, choice: Choice): string {
  const option = variantsOf(card, choice.scope)[choice.variant];
  if (option === undefined) {
    return "";
  }
  const uses = choice.uses !== null && choice.scope !== "once" ? `, at most ${choice.uses === 1 ? "once" : `${choice.uses} times`}` : "";
  const ends = choice.lifetimeS !== null && choice.lifetimeS < option.lifetimeS ? `, ending in ${lifetime(choice.lifetimeS)}` : "";
  return `${option.sentence}${uses}${ends}.`;
}

/** The answer to send; null when the card does not offer it. */
export function answerOf(card: Fields, approvalId: string, cardDigest: string, allow: boolean, choice: Choice): Answer | null {
  const option = variantsOf(card, choice.scope)[choice.variant];
  if (!allow) {
    return { approvalId, cardDigest, allow, option: 0, uses: null, lifetimeS: null };
  }
  if (option === undefined) {
    return null;
  }
  const shorter = choice.lifetimeS !== null && choice.lifetimeS < option.lifetimeS ? choice.lifetimeS : null;
  return { approvalId, cardDigest, allow, option: option.index, uses: choice.scope === "once" ? null : choice.uses, lifetimeS: shorter };
}

/** Whether there is anything to decide on: an empty command is never approvable. */
export function isApprovable(card: Fields): boolean {
  const command = sub(card, "command");
  return optionsOf(card).length > 0 && (command === null || texts(command, "words").some((word) => word.trim() !== ""));
}

const RISKS = ["low", "medium", "high"];

/** Bars of the risk's sign: 1 to 3. */
export function riskBars(risk: string): number {
  const at = RISKS.indexOf(risk);
  return at < 0 ? 3 : at + 1;
}

/** The row of questions that a card is a part of. */
export interface CardRow {
  readonly of: number;
  readonly at: number;
  readonly calls: readonly string[];
  /** Every part is to be answered by itself. What does not say so plainly is. */
  readonly each: boolean;
}

/** The row in which an approval's card stands; null where it stands alone. */
export function rowOf(fields: Fields): CardRow | null {
  const card = sub(fields, "card");
  const row = card === null ? null : sub(card, "together");
  return row === null ? null : { of: num(row, "of") ?? 0, at: num(row, "at") ?? 0, calls: texts(row, "calls"), each: row["each"] !== false };
}

/** One answer for every card of a row, each by its own digest; null where one of them needs an answer of its own. */
export function answersForAll(items: readonly ViewItem[], allow: boolean): readonly Answer[] | null {
  const answers = items.flatMap(({ id, fields }) => {
    const card = sub(fields, "card") ?? {};
    const answer = answerOf(card, id.slice(id.indexOf("/") + 1), str(fields, "cardDigest"), allow, FIRST);
    return answer === null || rowOf(fields)?.each !== false || (allow && !isApprovable(card)) ? [] : [answer];
  });
  return items.length > 1 && answers.length === items.length ? answers : null;
}
