/**
 * Where the user writes.
 *
 * Purpose: the message, what is attached, how it is sent while a turn runs, and what waits.
 * Invariant: while a turn runs nothing is sent before its way was chosen; what is typed survives hiding the panel.
 * Must never: send twice for one press, or lose words that were not taken.
 */

import { attachmentLabel } from "../common/attach.ts";
import { modeLabel } from "../common/bounds.ts";
import type { Attachment, PanelState, QueuedRow, SendVerb, SteeringKind } from "../common/panel.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { icon } from "./icons.ts";
import { keep, kept, send } from "./port.ts";

const KINDS: readonly (SteeringKind | "auto")[] = ["auto", "supplement", "correct", "replace", "ask"];
const WAYS: readonly (readonly [SendVerb, string, string])[] = [
  ["queue", "Queue", "Waits until the turn has ended."],
  ["steer", "Steer", "Arrives when what runs now has ended."],
  ["interrupt", "Interrupt", "Stops the turn and begins the next one."],
];
const ATTACHMENTS_MAX = 20;
const LINES_MAX = 12;

export class Composer {
  readonly element: HTMLElement;
  private readonly area: HTMLTextAreaElement;
  private readonly queue = h("div", { class: "queued" });
  private readonly context = h("div", { class: "ctx" });
  private readonly ways = h("div", { class: "steer", role: "group", label: "How to send while the turn runs" });
  private readonly bar = h("div", { class: "tb" });
  private attachments: readonly Attachment[];
  private kind: SteeringKind | "auto" = "auto";
  private state: PanelState | null = null;
  /** The queued message that is being edited, and the words that stood in the field before. */
  private editing: { readonly messageId: string; readonly draft: string } | null = null;
  private readonly note = h("div", { class: "xs q editing" }, "Editing a queued message. ", h("kbd", {}, "Esc"), " leaves it as it was.");
  private sending = false;
  private drawn = "";

  constructor() {
    const { draft, attachments } = kept();
    this.attachments = attachments;
    this.area = h("textarea", { class: "tx", label: "Message", attrs: { rows: "1", placeholder: "Ask for a change" } });
    this.area.value = draft;
    this.area.addEventListener("input", () => this.typed());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.ways.addEventListener("keydown", (event) => this.wayKey(event));
    this.element = h("div", { class: "comp" }, this.queue, this.context, this.note, this.area, this.bar, this.ways);
    this.ways.hidden = true;
    this.note.hidden = true;
    this.drawContext();
    requestAnimationFrame(() => this.grow());
  }

  focus(): void {
    this.area.focus();
  }

  /** Words for the user to send; what stands there already stays before them. */
  draft(words: string): void {
    this.area.value = this.area.value === "" ? words : `${this.area.value}\n${words}`;
    this.typed();
    this.area.focus();
  }

  attach(attachment: Attachment): void {
    const same = (one: Attachment): boolean => one.path === attachment.path && String(one.lines) === String(attachment.lines);
    if (!this.attachments.some(same) && this.attachments.length < ATTACHMENTS_MAX) {
      this.attachments = [...this.attachments, attachment];
      this.drawContext();
      this.remember();
    }
  }

  show(state: PanelState): void {
    this.state = state;
    const { session, link, trusted, folders } = state;
    const key = JSON.stringify([
      session?.queue,
      session?.turnId,
      session?.id,
      session?.model,
      session?.modelLabel,
      session?.sandbox,
      session?.mode,
      state.fresh,
      link.kind,
      trusted,
      folders,
      session?.readOnly,
      session?.ended,
    ]);
    if (key === this.drawn) {
      return;
    }
    this.drawn = key;
    this.area.disabled = !trusted || folders === 0 || session?.readOnly === true || (session?.ended ?? "") !== "";
    this.area.placeholder = !trusted ? "Restricted: nothing can be sent" : this.isRunning ? "Say something to the running turn" : "Ask for a change";
    if (!this.isRunning) {
      this.ways.hidden = true;
    }
    const rows = session?.queue ?? [];
    if (this.editing !== null && !rows.some((one) => one.messageId === this.editing?.messageId)) {
      this.endEditing(this.area.value); // it is on its way: what was typed is a message of its own now
    }
    const focused = this.queue.contains(document.activeElement);
    fill(this.queue, ...rows.map((one) => this.queuedRow(one)));
    if (focused) {
      (this.queue.querySelector<HTMLElement>("button") ?? this.area).focus(); // what held it was drawn anew
    }
    this.drawBar(state);
  }

  /** The extension's answer: what was sent was taken, or it was not and stays here. */
  sent(ok: boolean, text: string): void {
    this.sending = false;
    this.element.classList.remove("sending");
    if (this.editing !== null) {
      this.endEditing(ok ? this.editing.draft : text);
    } else if (ok) {
      this.area.value = "";
      this.attachments = [];
      this.kind = "auto";
      this.ways.hidden = true;
    } else if (this.area.value === "" && text !== "") {
      this.area.value = text;
    }
    this.typed();
    this.drawContext();
  }

  private get isRunning(): boolean {
    return this.state?.session?.turnId != null;
  }

  private typed(): void {
    this.grow();
    this.remember();
  }

  private remember(): void {
    keep({ draft: this.editing?.draft ?? this.area.value, attachments: this.attachments });
  }

  private grow(): void {
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight, LINES_MAX * 18 + 13)}px`;
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "Escape" && this.editing !== null) {
      event.preventDefault();
      this.endEditing(this.editing.draft);
    }
  }

  private edit(messageId: string, text: string): void {
    this.editing = { messageId, draft: this.editing?.draft ?? this.area.value };
    this.note.hidden = false;
    this.ways.hidden = true;
    this.area.value = text;
    this.grow(); // what is kept while the panel is hidden stays the draft
    this.area.focus();
  }

  private endEditing(words: string): void {
    this.editing = null;
    this.note.hidden = true;
    this.area.value = words;
    this.typed();
  }

  private submit(): void {
    if (this.area.value.trim() === "" || this.sending) {
      return;
    }
    if (this.editing !== null) {
      this.sending = true;
      this.element.classList.add("sending");
      send({ type: "edit", messageId: this.editing.messageId, text: this.area.value });
    } else if (this.isRunning) {
      this.openWays();
    } else {
      this.dispatch("start");
    }
  }

  private dispatch(verb: SendVerb): void {
    if (this.area.value.trim() === "" || this.sending) {
      return;
    }
    this.sending = true;
    this.element.classList.add("sending");
    const kind = this.kind === "auto" || verb !== "steer" ? null : this.kind;
    send({ type: "send", verb, text: this.area.value, kind, attachments: this.attachments });
  }

  private openWays(): void {
    const words = h("span", { class: "grow ell" }, WAYS[1]?.[2] ?? "");
    const buttons = WAYS.map(([verb, title, meaning], at) => {
      const primary = verb === "steer";
      const made = button(
        primary ? "btn pri" : "btn",
        () => this.dispatch(verb),
        { attrs: { "data-way": String(at) }, title: meaning },
        title,
        primary && h("kbd", {}, "⏎"),
      );
      made.addEventListener("focus", () => (words.textContent = meaning));
      return made;
    });
    const pick = h("select", { class: "sel", label: "Read as" });
    pick.append(...KINDS.map((kind) => h("option", { attrs: { value: kind } }, kind === "auto" ? "its words" : kind)));
    pick.value = this.kind;
    pick.addEventListener("change", () => (this.kind = KINDS.find((kind) => kind === pick.value) ?? "auto"));
    fill(this.ways, h("div", { class: "trio" }, ...buttons), h("div", { class: "xs q row" }, words, h("span", {}, "Read as"), pick));
    this.ways.hidden = false;
    buttons[1]?.focus();
  }

  private wayKey(event: KeyboardEvent): void {
    const at = Number((event.target as HTMLElement).dataset["way"] ?? "-1");
    if (event.key === "Escape") {
      event.preventDefault();
      this.ways.hidden = true;
      this.area.focus();
    } else if (at >= 0 && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      event.preventDefault();
      const next = (at + (event.key === "ArrowRight" ? 1 : WAYS.length - 1)) % WAYS.length;
      this.ways.querySelector<HTMLElement>(`[data-way="${next}"]`)?.focus();
    }
  }

  private queuedRow(row: QueuedRow): HTMLElement {
    const { messageId } = row;
    const edit = (): void => this.edit(messageId, row.text);
    const key = (event: Event): void => {
      if (["Delete", "Backspace"].includes((event as KeyboardEvent).key)) {
        event.preventDefault();
        send({ type: "unqueue", messageId });
      }
    };
    return h(
      "div",
      { class: "queue", on: { keydown: key } },
      h("span", { class: "xs q" }, "Queued"),
      h("span", { class: "ell grow", title: row.text }, revealed(row.text.slice(0, 300))),
      button("ib", () => send({ type: "steerQueued", messageId }), { label: "Steer with this message now" }, icon("send", "s")),
      button("ib", edit, { label: "Edit queued message" }, icon("pencil", "s")),
      button("ib", () => send({ type: "unqueue", messageId }), { label: "Remove queued message" }, icon("close", "s")),
    );
  }

  private drawContext(): void {
    const chips = this.attachments.map((one, at) => {
      const drop = (): void => {
        this.attachments = this.attachments.filter((other) => other !== one);
        this.drawContext();
        this.remember();
        const left = this.context.querySelectorAll("button"); // the cursor goes to the next one, else to the words
        (left[Math.min(at, left.length - 1)] ?? this.area).focus();
      };
      const key = (event: Event): void => {
        if (["Delete", "Backspace"].includes((event as KeyboardEvent).key)) {
          event.preventDefault();
          drop();
        }
      };
      return h(
        "span",
        { class: "chip", title: one.path },
        icon("file"),
        attachmentLabel(one),
        button("ib tiny", drop, { label: `Remove ${attachmentLabel(one)}`, on: { keydown: key } }, icon("close", "xs")),
      );
    });
    this.context.hidden = chips.length === 0;
    fill(this.context, ...chips);
  }

  private drawBar(state: PanelState): void {
    const verb = (name: "chooseModel" | "chooseMode" | "chooseSandbox" | "attachFile") => (): void => send({ type: "verb", verb: name });
    const { model, modelLabel, mode, sandbox } = state.session ?? state.fresh;
    const whose = state.session === null ? "the session that the first message begins" : "this session";
    const name = model === "" ? shortLabel(modelLabel) : model;
    fill(
      this.bar,
      button(
        "pick",
        verb("chooseModel"),
        { title: `Model of the next request${name === "" ? "" : `: ${name === modelLabel || modelLabel === "" ? name : `${name}, ${modelLabel}`}`}` },
        h("span", {}, name === "" ? "Model" : revealed(name)),
        icon("cd", "s"),
      ),
      button("pick mode", verb("chooseMode"), { title: `Mode of ${whose}: what it may do` }, h("span", {}, modeLabel(mode)), icon("cd", "s")),
      (sandbox !== "" || state.session === null) &&
        button(
          "pick sand",
          verb("chooseSandbox"),
          {
            title: `Sandbox of ${whose}: ${sandbox === "" ? "as the folder is trusted" : sandbox}`,
            label: `Sandbox: ${sandbox === "" ? "as the folder is trusted" : sandbox}`,
          },
          icon("shield", "s"),
          h("span", {}, sandbox === "" ? "Sandbox" : sandbox),
          icon("cd", "s"),
        ),
      h("span", { class: "grow" }),
      button("ib", verb("attachFile"), { label: "Attach a file" }, icon("plus")),
      button("ib", () => this.submit(), { label: "Send (Enter)" }, icon("send")),
    );
  }
}

/** A model's label without what it says in brackets at its end; its whole stands in the hover. */
function shortLabel(label: string): string {
  return label.replace(/(?<=.) \([^()]*\)$/, "");
}
