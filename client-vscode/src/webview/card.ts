/**
 * The approval card.
 *
 * Purpose: ask one question with everything that belongs to the answer, and take the answer.
 * Invariant: the command is whole; the sentence is that of the right to be issued; only Deny or Allow of this card
 * decides, and nothing does in its first moments.
 * Must never: take the focus, decide on Esc, or offer what the card does not.
 */

import type { ViewItem } from "../../../protocol/typescript/wire.ts";
import { answeredLine } from "../common/answered.ts";
import { releaseOf, sendsOf, touches } from "../common/cardFacts.ts";
import {
  FIRST,
  SCOPES,
  SCOPE_WORDS,
  allowSentence,
  answerOf,
  isApprovable,
  optionsOf,
  refusedReason,
  riskBars,
  sub,
  subs,
  texts,
  variantWords,
  variantsOf,
} from "../common/cardModel.ts";
import type { Choice } from "../common/cardModel.ts";
import { Deaf, LOOK_MS } from "../common/deaf.ts";
import type { FileRow } from "../common/panel.ts";
import { suspectedOf } from "../common/suspicion.ts";
import { num, str } from "../common/toolRow.ts";
import type { Fields } from "../common/toolRow.ts";
import { capital, counted, lifetime } from "../common/words.ts";
import { factsView, payloadView, releaseView, ticks } from "./cardParts.ts";
import { clock } from "./clock.ts";
import { coloursLine } from "./colours.ts";
import { button, fill, h, revealed, written } from "./dom.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

/** Told to cards in the page when the picture around the conversation changed. */
export const STATE_TOLD = "gloveport-state";
const USES = [1, 5, 20] as const;
const LIVES_S = [600, 3600, 8 * 3600, 30 * 86_400] as const;

const QUESTION_ICONS: readonly (readonly [RegExp, string])[] = [
  [/command/i, "term"],
  [/tests/i, "beaker"],
  [/secret/i, "key"],
  [/delete/i, "trash"],
  [/network|reach/i, "globe"],
  [/install/i, "box"],
  [/history/i, "branch"],
  [/publish|send|release/i, "send"],
  [/write/i, "pencil"],
  [/read|search/i, "eye"],
];

class Card {
  readonly element: HTMLElement;
  private readonly id: string;
  private readonly digest: string;
  private readonly card: Fields;
  private readonly askedAt: number;
  private choice: Choice = FIRST;
  private readonly hears: () => boolean;
  private readonly narrow = h("div", { class: "sec" });
  private readonly decision = h("div", { class: "sec decide" });
  private readonly suspects = h("ul", { class: "fx suspects" });
  private sent = false;

  constructor(
    item: ViewItem,
    private readonly files: () => readonly FileRow[],
  ) {
    this.id = item.id.slice(item.id.indexOf("/") + 1);
    this.digest = str(item.fields, "cardDigest");
    this.card = sub(item.fields, "card") ?? {};
    this.askedAt = num(item.fields, "askedAt") ?? 0;
    this.element = h(
      "div",
      {
        class: "ap",
        role: "group",
        label: `Approval: ${str(this.card, "title")}`,
        tabindex: 0,
        on: {
          keydown: (event) => this.key(event as KeyboardEvent),
          focusin: () => focusTold(true),
          focusout: () => focusTold(false),
          [STATE_TOLD]: () => this.drawSuspects(),
        },
      },
      this.head(),
      this.facts(),
      releaseView(this.card),
      this.narrow,
      this.decision,
    );
    this.draw();
    this.drawSuspects();
    this.hears = listening(this.decision);
  }

  private head(): HTMLElement {
    const { card } = this;
    const risk = str(card, "risk");
    const bars = riskBars(risk);
    const sign = QUESTION_ICONS.find(([words]) => words.test(str(card, "title")))?.[1] ?? "shield";
    const binding = sub(card, "binding");
    const agent = str(card, "agent");
    const who = agent === "main" || agent === "" ? "Main agent" : `Sub-agent “${agent}”`;
    const goal = binding === null ? "" : `goal ${num(binding, "goal_revision") ?? "?"}`;
    const about = [who, goal, this.askedAt > 0 ? `asked ${clock(this.askedAt, Date.now())}` : ""].filter((one) => one !== "").join(" · ");
    const release = releaseOf(card);
    const held = release?.isHeldBack === true && `Held back: \`${release.host}\` may not read all of what could be in it.`;
    const level = h(
      "span",
      { class: `risk r${bars}` },
      h("span", { class: "lv", attrs: { "aria-hidden": "true" } }, h("i"), h("i"), h("i")),
      h("span", {}, capital(risk), h("span", { class: "wide" }, " risk")),
    );
    return h(
      "div",
      { class: "sec first" },
      h("div", { class: "row" }, icon(sign), h("h3", { class: "grow" }, str(card, "title")), level),
      h("div", { class: "xs q about" }, about),
      coloursLine(),
      held !== false && h("p", { class: "q about why" }, ticks(held)),
      this.command(),
      payloadView(card),
      this.diff(),
      this.suspects,
      this.warnings(),
    );
  }

  /** What was found in proposed files that the card names; they may become known after it. */
  private drawSuspects(): void {
    const lines = suspectedOf(this.card, this.files()).flatMap(({ path, findings }) => findings.map(({ words }) => `${path}, as proposed: ${words}`));
    this.suspects.hidden = lines.length === 0;
    fill(this.suspects, ...lines.map((words) => h("li", {}, icon("warnt", "warn"), h("span", {}, revealed(words)))));
  }

  private command(): HTMLElement | null {
    const command = sub(this.card, "command");
    if (command === null) {
      const summary = sendsOf(this.card) === null ? str(this.card, "summary") : ""; // else it is shown whole
      return summary === "" ? null : h("div", { class: "cmd", tabindex: 0 }, written(summary));
    }
    const hidden = num(command, "hidden_characters") ?? 0;
    const text = str(command, "text");
    const box = h("div", { class: "cmd", tabindex: 0, label: "Full command" });
    for (const [part] of text.matchAll(/(?:\u27e8[^\u27e9]*\u27e9|[^ ])+| /g)) {
      box.append(part === " " ? " " : h("span", { class: "arg" }, written(part)));
    }
    const copy = button("ib small", () => send({ type: "copy", text }), { label: "Copy command" }, icon("copy"));
    const foot = h(
      "div",
      { class: "xs q row foot" },
      hidden > 0 && icon("eye", "xs"),
      h("span", { class: "grow" }, hidden > 0 ? `${counted(hidden, "hidden character")}, shown escaped` : counted(text.length, "character")),
      copy,
    );
    return h("div", {}, box, foot);
  }

  /** What an edit would change, as the daemon shows it. */
  private diff(): HTMLElement | null {
    const lines = texts(this.card, "diff");
    if (lines.length === 0) {
      return null;
    }
    const begin = lines.findIndex((line) => line.startsWith("@@")); // what stands before it names the file
    const kind = (line: string, at: number): string => (at < begin ? "q" : line.startsWith("+") ? "ins" : line.startsWith("-") ? "rem" : "");
    const rows = lines.map((line, at) => h("div", { class: kind(line, at) }, written(line)));
    return h("div", { class: "cmd difft", tabindex: 0, label: "What would change" }, ...rows);
  }

  private warnings(): HTMLElement | null {
    const command = sub(this.card, "command");
    const hidden = command === null ? 0 : (num(command, "hidden_characters") ?? 0);
    const provenance = sub(this.card, "provenance");
    const lines: (readonly [string, string, string])[] = [];
    if (hidden > 0) {
      lines.push(["warnt", "warn", "Hidden characters conceal part of the command."]);
    }
    if ((sendsOf(this.card)?.hidden ?? 0) > 0) {
      lines.push(["warnt", "warn", "Hidden characters conceal part of what leaves."]);
    }
    if (provenance !== null && str(provenance, "integrity") === "untrusted") {
      lines.push(["warnt", "warn", str(provenance, "words")]);
    }
    lines.push(...texts(this.card, "notes").map((note) => ["warnt", "warn", note] as const));
    lines.push(
      this.card["reversible"] === true
        ? ["undo", "q", "Your own files change only when you keep the result."]
        : ["warnt", "warn", "Gloveport can’t undo this."],
    );
    return h("ul", { class: "fx" }, ...lines.map(([sign, tone, words]) => h("li", {}, icon(sign, tone), h("span", {}, words))));
  }

  private facts(): HTMLElement {
    const factors = subs(this.card, "factors").map((one) =>
      h("li", {}, h("span", { class: "q" }, `${str(one, "name")}: ${str(one, "level")}`), h("span", {}, str(one, "words"))),
    );
    const why = h(
      "details",
      { class: "whyrisk" },
      h("summary", { class: "xs q" }, `Why ${str(this.card, "risk")} risk: ${str(this.card, "reason")}`),
      h("ul", { class: "factors xs" }, ...factors),
    );
    return h("div", { class: "sec" }, factsView(touches(this.card)), why);
  }

  private draw(): void {
    this.drawScopes();
    this.drawDecision();
  }

  private choose(choice: Choice): void {
    this.choice = choice;
    this.drawDecision();
    for (const radio of this.narrow.querySelectorAll<HTMLInputElement>("input[name^=scope]")) {
      radio.checked = radio.value === choice.scope;
    }
    this.drawNarrowing();
  }

  private drawScopes(): void {
    const options = optionsOf(this.card);
    if (options.every((one) => one.scope === "once")) {
      this.narrow.remove();
      return;
    }
    const rows = SCOPES.map((scope) => {
      const reason = refusedReason(this.card, scope);
      const first = variantsOf(this.card, scope)[0];
      const attrs: Record<string, string> = { type: "radio", name: `scope-${this.id}`, value: scope };
      if (scope === this.choice.scope) {
        attrs["checked"] = "";
      }
      if (reason !== "") {
        attrs["disabled"] = "";
      }
      const words =
        reason !== ""
          ? reason
          : scope === "once"
            ? `this call, within ${lifetime(first?.lifetimeS ?? 0)}`
            : scope === "turn"
              ? "until this turn ends"
              : `for at most ${lifetime(first?.lifetimeS ?? 0)}`;
      const pick = h("input", { class: "rd", attrs, on: { change: () => this.choose({ ...FIRST, scope }) } });
      return h(
        "label",
        { class: reason === "" ? "opt" : "opt off" },
        pick,
        h("span", { class: "nw" }, SCOPE_WORDS[scope]),
        h("span", { class: "q why" }, words),
      );
    });
    fill(this.narrow, h("h4", {}, "Allow for"), h("div", { role: "radiogroup", label: "Scope" }, ...rows), h("div", { class: "narrowing" }));
  }

  /** What can be narrowed within a scope: which calls, how often, how long. */
  private drawNarrowing(): void {
    const place = this.narrow.querySelector<HTMLElement>(".narrowing");
    if (place === null) {
      return;
    }
    const { scope, variant, uses, lifetimeS } = this.choice;
    const variants = variantsOf(this.card, scope);
    const option = variants[variant];
    if (scope === "once" || option === undefined) {
      fill(place);
      return;
    }
    const names = variantWords(variants);
    const reach = names.map((name, at) => {
      const attrs: Record<string, string> = {
        type: "radio",
        name: `reach-${this.id}`,
        value: String(at),
        ...(at === variant ? { checked: "" } : {}),
      };
      return h(
        "label",
        { class: "ck" },
        h("input", { class: "rd", attrs, on: { change: () => this.choose({ ...this.choice, variant: at }) } }),
        h("span", {}, ticks(name)),
      );
    });
    const lives = [...LIVES_S.filter((life) => life < option.lifetimeS), option.lifetimeS];
    const select = (label: string, rows: readonly (readonly [string, string])[], value: string, pick: (value: string) => void): HTMLElement => {
      const made = h("select", { class: "sel", label, on: { change: (event) => pick((event.target as HTMLSelectElement).value) } });
      made.append(...rows.map(([key, words]) => h("option", { attrs: { value: key } }, words)));
      made.value = value;
      return made;
    };
    fill(
      place,
      h("h4", {}, "Narrow to"),
      ...reach,
      h(
        "div",
        { class: "row limits" },
        select(
          "Ends",
          lives.map((life) => [String(life), lifetime(life)]),
          String(lifetimeS ?? option.lifetimeS),
          (value) => this.choose({ ...this.choice, lifetimeS: Number(value) }),
        ),
        select(
          "Uses",
          [["", "any number of uses"], ...USES.map((count) => [String(count), counted(count, "use")] as const)],
          uses === null ? "" : String(uses),
          (value) => this.choose({ ...this.choice, uses: value === "" ? null : Number(value) }),
        ),
      ),
    );
  }

  private drawDecision(): void {
    const approvable = isApprovable(this.card);
    const high = riskBars(str(this.card, "risk")) > 2;
    const [doOnce, refuse] = decisionWords(this.card);
    const once = this.choice.scope === "once" ? doOnce : `Allow for ${SCOPE_WORDS[this.choice.scope].toLowerCase()}`;
    const allow = button(
      high ? "btn tall grow" : "btn tall grow pri",
      () => this.decide(true),
      { attrs: approvable ? {} : { disabled: "" } },
      once,
      h("kbd", {}, "Ctrl ⏎"),
    );
    const deny = button("btn tall grow", () => this.decide(false), {}, refuse, h("kbd", {}, "Ctrl ⌫"));
    fill(
      this.decision,
      h(
        "p",
        { class: "sum" },
        h("span", { class: "q" }, "You allow: "),
        approvable ? ticks(allowSentence(this.card, this.choice)) : "nothing: there is no command to allow.",
      ),
      h("div", { class: "act" }, allow, deny),
      h("p", { class: "xs q esc-words" }, h("kbd", {}, "Esc"), " leaves it waiting. Nothing runs until you answer."),
    );
  }

  private decide(allow: boolean): void {
    if (this.sent || !this.hears()) {
      return;
    }
    const answer = answerOf(this.card, this.id, this.digest, allow, this.choice);
    if (answer === null || (allow && !isApprovable(this.card))) {
      return;
    }
    this.sent = true;
    this.element.classList.add("sent");
    send({ type: "answer", answer });
    setTimeout(() => {
      this.sent = false;
      this.element.classList.remove("sent");
    }, 5000);
  }

  private key(event: KeyboardEvent): void {
    const control = event.ctrlKey || event.metaKey;
    const field = (event.target as HTMLElement).tagName === "SELECT";
    if (control && event.key === "Enter") {
      this.decide(true);
    } else if (control && event.key === "Backspace") {
      this.decide(false);
    } else if (event.key === "Escape") {
      this.element.closest<HTMLElement>(".conv")?.focus();
    } else if (!field && !control && /^[1-4]$/.test(event.key)) {
      const scope = SCOPES[Number(event.key) - 1];
      if (scope !== undefined && variantsOf(this.card, scope).length > 0) {
        this.choose({ ...FIRST, scope });
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The verbs of the question: those of one answer, and of none. */
function decisionWords(card: Fields): readonly [string, string] {
  const release = releaseOf(card);
  return release === null ? ["Allow once", "Deny"] : release.isHeldBack ? ["Release once", "Keep blocked"] : ["Send once", "Deny"];
}

/** Whether buttons hear: not in the first moments in which they stand where they stand. Looks as long as they are in the page. */
export function listening(buttons: Element): () => boolean {
  const deaf = new Deaf(performance.now());
  const hears = (): boolean => {
    const { left, top, width, height } = buttons.getBoundingClientRect();
    return deaf.hears([left, top, width, height], performance.now());
  };
  let was = false;
  const timer = setInterval(() => {
    if (was && !buttons.isConnected) {
      clearInterval(timer);
    } else if (buttons.isConnected) {
      was = true;
      hears();
    }
  }, LOOK_MS);
  return hears;
}

function focusTold(focused: boolean): void {
  send({ type: "cardFocus", focused });
}

/** A card that waits. `files`: the proposals of its session; of those that it names it tells what was found in them. */
export function cardView(item: ViewItem, files: () => readonly FileRow[]): HTMLElement {
  return h("div", { class: "pad" }, new Card(item, files).element);
}

/** Let the cards below an element look at the picture around the conversation anew. */
export function tellState(below: Element): void {
  below.querySelectorAll(".ap").forEach((card) => card.dispatchEvent(new Event(STATE_TOLD)));
}

/** An answered card: one line. `elsewhere`: another window answered it. */
export function answeredView(item: ViewItem, elsewhere: boolean): HTMLElement {
  const summary = str(sub(item.fields, "card") ?? {}, "summary");
  const line = answeredLine(item.fields, elsewhere, (at) => clock(at, Date.now()));
  return h(
    "div",
    { class: "pad" },
    h(
      "div",
      { class: "done" },
      icon(line.icon, `s ${line.tone}`),
      h("span", { class: "ell", title: summary }, line.words, summary === "" ? "." : line.isAnswer ? ": " : " · ", written(summary)),
      h("span", { class: "xs q nw who" }, line.meta),
    ),
  );
}
