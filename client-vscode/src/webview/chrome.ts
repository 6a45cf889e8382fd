/**
 * What stands around the conversation: session, plan, files, meters.
 *
 * Purpose: draw the picture that the extension sends, and nothing that it does not say.
 * Invariant: each part is drawn anew only when its own picture changed, so that focus stays where it is.
 * Must never: decide; a button asks the extension.
 */

import { brief, budgetBrief } from "../common/bounds.ts";
import { SEARCH_FROM } from "../common/found.ts";
import type { Budget, Found, FoundRow, LinkState, PanelState, SessionPicture, SessionRow, WayOn } from "../common/panel.ts";
import { str } from "../common/toolRow.ts";
import type { Fields } from "../common/toolRow.ts";
import { capital, dollars, grouped, phaseLook, phaseWords, running, tokens } from "../common/words.ts";
import { button, fill, h, revealed } from "./dom.ts";
import { FilesBox } from "./files.ts";
import { icon } from "./icons.ts";
import { send } from "./port.ts";

/** From this part of a limit on its bar warns. */
const NEAR = 0.9;
/** So long after the last key the messages are searched. */
const SEARCH_AFTER_MS = 250;

/** An element that is drawn again only when what it shows changed. */
class Part {
  readonly element: HTMLElement;
  private drawn = "";

  constructor(element: HTMLElement) {
    this.element = element;
  }

  show(picture: unknown, draw: () => void): void {
    const key = JSON.stringify(picture);
    if (key !== this.drawn) {
      this.drawn = key;
      draw();
    }
  }
}

export function dot(phase: string): HTMLElement {
  const look = phaseLook(phase);
  const words = phaseWords(phase);
  if (look === "unknown" || look === "error") {
    return h("span", { class: "dotslot" }, icon(look === "unknown" ? "unknown" : "close", `s ${look === "unknown" ? "warn" : "bad"}`, words));
  }
  return h("span", { class: "dotslot" }, h("span", { class: `dot ${look}`, role: "img", label: words }));
}

/** How many sessions beside the shown one wait for the user. */
function waitingElsewhere(state: PanelState): number {
  return state.sessions.filter((one) => one.id !== state.session?.id && phaseLook(one.phase) === "wait").length;
}

function othersWords(count: number): string {
  return count === 1 ? "Another session waits for you" : `${count} other sessions wait for you`;
}

export class Chrome {
  private readonly header = new Part(h("header", { class: "sess" }));
  private readonly picker = new Part(h("div", { class: "picker" }));
  private readonly plan = new Part(h("div", { class: "planbox" }));
  private readonly banner = new Part(h("div", { class: "banner" }));
  private readonly files = new FilesBox();
  private readonly meters = new Part(h("div", { class: "meters" }));
  private readonly time = h("span", { class: "num" });
  private picking = false;
  private filter = "";
  private found: Found | null = null;
  private searching = 0;
  private planOpen = false;
  private state: PanelState | null = null;

  readonly top: readonly HTMLElement[];
  readonly aboveComposer: readonly HTMLElement[];
  readonly below: HTMLElement;

  constructor() {
    this.picker.element.hidden = true;
    this.picker.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.togglePicker();
      }
    });
    this.top = [this.header.element, this.picker.element, this.banner.element, this.plan.element];
    this.aboveComposer = [this.files.element];
    this.below = this.meters.element;
    setInterval(() => this.tick(), 1000);
  }

  show(state: PanelState): void {
    const before = this.state?.session?.id;
    this.state = state;
    if (before !== undefined && before !== state.session?.id) {
      this.picking = false;
    }
    const { session } = state;
    this.header.show(
      [
        ...[session?.id, session?.title, session?.phase, session?.trust, session?.sandbox, session?.goal, session?.turnId],
        ...[this.picking, waitingElsewhere(state)],
      ],
      () => this.drawHeader(state),
    );
    this.picker.show([state.sessions, this.picking, session?.id], () => this.drawPicker(state));
    this.banner.show(
      [state.link, state.fresh.noModelIn, state.standing, state.trusted, state.folders, session?.readOnly, session?.ended, session?.fault],
      () => this.drawBanner(state),
    );
    this.files.show(session?.files ?? []);
    this.meters.show(
      [
        session?.contextTokens,
        session?.budget,
        session?.costNanoUsd,
        session?.unpriced,
        session?.tokens,
        session?.inSync,
        session?.seq,
        state.link.kind,
      ],
      () => this.drawMeters(session, state.link),
    );
    this.tick();
  }

  togglePicker(): void {
    this.picking = !this.picking;
    this.filter = "";
    this.found = null;
    if (this.state !== null) {
      this.show(this.state);
    }
    if (this.picking) {
      this.picker.element.querySelector("input")?.focus();
    } else {
      this.header.element.querySelector<HTMLElement>(".title")?.focus();
    }
  }

  /** What was found of the words that stand in the field now; answers to earlier ones are too late. */
  showFound(found: Found): void {
    const listbox = this.picker.element.querySelector("ul");
    if (this.state !== null && listbox !== null && found.text === this.filter.trim()) {
      this.found = found;
      fill(listbox, ...this.sessionRows(this.state));
    }
  }

  private searchSoon(): void {
    clearTimeout(this.searching);
    this.found = null;
    const text = this.filter.trim();
    if (text.length >= SEARCH_FROM) {
      this.searching = window.setTimeout(() => send({ type: "search", text }), SEARCH_AFTER_MS);
    }
  }

  showPlan(fields: Fields | null): void {
    this.plan.show([fields?.["items"], this.planOpen], () => this.drawPlan(fields));
  }

  private tick(): void {
    const session = this.state?.session;
    if (session === null || session === undefined) {
      return;
    }
    const lasts = session.since === null ? "" : ` ${running(Date.now() * 1000 - session.since)}`;
    this.time.textContent = `${phaseWords(session.phase)}${phaseLook(session.phase) === "run" ? lasts : ""}`;
  }

  private drawHeader(state: PanelState): void {
    const { session } = state;
    const open = (): void => this.togglePicker();
    const title = session === null ? "New session" : session.title;
    const others = waitingElsewhere(state);
    const pick = button(
      "pick grow title",
      open,
      { attrs: { "aria-expanded": String(this.picking) }, title: others === 0 ? "All sessions" : `All sessions. ${othersWords(others)}` },
      h("span", { class: "ell b" }, revealed(title, "words")),
      icon("cd", "s"),
      others > 0 && h("span", { class: "others" }, h("span", { class: "dot wait", role: "img", label: othersWords(others) })),
    );
    const running = session?.turnId != null;
    const stop = running && button("ib", () => send({ type: "verb", verb: "cancel" }), { label: "Stop the turn (Ctrl+.)" }, icon("stop"));
    const first = h("div", { class: "t" }, dot(session?.phase ?? "idle"), pick, stop);
    if (session === null) {
      fill(this.header.element, first);
      return;
    }
    const goal = session.goal > 1 && h("span", { class: "wide" }, ` · goal ${session.goal}`);
    const trust = button(
      "chip",
      () => send({ type: "verb", verb: "chooseTrust" }),
      { title: "Trust of the folder and sandbox of this session. Change" },
      icon("shield"),
      capital(session.trust),
      h("span", { class: "sep" }),
      h("span", { class: "q" }, session.sandbox),
    );
    fill(this.header.element, first, h("div", { class: "u" }, h("span", { class: "xs q grow ell" }, this.time, goal), trust));
  }

  private drawPicker(state: PanelState): void {
    const { element } = this.picker;
    element.hidden = !this.picking;
    if (!this.picking) {
      fill(element);
      return;
    }
    const open = element.querySelector("ul");
    if (open !== null) {
      fill(open, ...this.sessionRows(state)); // the field stays, and the focus in it
      return;
    }
    const listbox = h("ul", { class: "sessions", role: "listbox", label: "Sessions" });
    const field = h("input", { class: "find", label: "Find a session", attrs: { type: "text", placeholder: "Find a session", value: this.filter } });
    field.addEventListener("input", () => {
      this.filter = field.value;
      this.searchSoon();
      fill(listbox, ...this.sessionRows(this.state ?? state));
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        listbox.querySelector("button")?.focus();
      }
    });
    fill(listbox, ...this.sessionRows(state));
    fill(element, field, listbox);
  }

  private sessionRows(state: PanelState): readonly HTMLElement[] {
    const wanted = this.filter.toLowerCase();
    const found = state.sessions.filter((one) => `${one.title} ${one.folder}`.toLowerCase().includes(wanted));
    const said = this.found?.rows ?? [];
    const note = found.length + said.length > 0 ? (this.found?.note ?? "") : state.sessions.length === 0 ? "No session yet" : this.nothingWords();
    return [
      ...found.map((one) => this.sessionRow(one, one.id === state.session?.id, null)),
      ...said.map((one) => this.sessionRow(one.session, false, one)),
      ...(note === "" ? [] : [h("li", { class: "q none", role: "option", attrs: { "aria-disabled": "true", "aria-selected": "false" } }, note)]),
    ];
  }

  private nothingWords(): string {
    return this.found === null && this.filter.trim().length >= SEARCH_FROM ? "Looking through messages" : "No title and no message holds these words";
  }

  /** A session by its title, or by a message of it that was found. */
  private sessionRow(row: SessionRow, current: boolean, hit: FoundRow | null): HTMLElement {
    const open = (): void => {
      this.picking = false;
      send({ type: "openSession", sessionId: row.id, ...(hit !== null && { itemId: hit.itemId }) });
      if (this.state !== null) {
        this.show(this.state);
      }
    };
    const move = (event: Event): void => {
      const item = (event.target as HTMLElement).closest("li");
      const { key } = event as KeyboardEvent;
      if (key === "ArrowDown" || key === "ArrowUp") {
        event.preventDefault();
        const other = key === "ArrowDown" ? item?.nextElementSibling?.querySelector("button") : item?.previousElementSibling?.querySelector("button");
        (other ?? (key === "ArrowUp" ? this.picker.element.querySelector("input") : null))?.focus();
      }
    };
    const parts =
      hit === null
        ? [h("span", { class: "ell grow" }, revealed(row.title, "words")), h("span", { class: "q xs nw" }, phaseWords(row.phase))]
        : [
            h(
              "span",
              { class: "grow said" },
              h("span", { class: "ell" }, revealed(row.title, "words")),
              h("span", { class: "q xs ell" }, revealed(hit.words, "words")),
            ),
            h("span", { class: "q xs nw" }, hit.who === "you" ? "you said" : "it said"),
          ];
    const options = { attrs: { role: "option", "aria-selected": String(current) }, title: hit?.words ?? row.folder, on: { keydown: move } };
    const look = `srow${current ? " on" : ""}${hit === null ? "" : " hit"}`;
    return h("li", { role: "none" }, button(look, open, options, dot(row.phase), ...parts));
  }

  private drawBanner(state: PanelState): void {
    const notes: HTMLElement[] = [];
    const note = (sign: string, tone: string, words: string, ...ways: readonly WayOn[]): void => {
      const acts = ways.flatMap(({ title, verb }) => [" ", button("linkish", () => send({ type: "verb", verb }), {}, title)]);
      notes.push(h("div", { class: "note", role: "status" }, icon(sign, tone), h("div", {}, revealed(words), ...acts)));
    };
    if (!state.trusted) {
      note("shield", "warn", "This workspace is restricted. Sessions can be read; nothing starts or is decided.", {
        title: "Manage trust",
        verb: "manageTrust",
      });
    }
    if (state.folders === 0) {
      note("info", "q", "Open a folder first: an agent works in a folder.", { title: "Open a folder", verb: "openFolder" });
    }
    const { link } = state;
    if (link.kind !== "ready" && link.kind !== "idle") {
      const [sign, tone] = link.kind === "starting" ? ["spin", "live spin"] : link.kind === "lost" ? ["refresh", "warn"] : ["errc", "bad"];
      note(sign ?? "info", tone ?? "", link.words, ...link.actions);
    }
    if (link.kind === "ready" && state.fresh.noModelIn !== "") {
      const words = `No model is set up. Keep a key of OpenAI or Anthropic in the editor, or write a [[models]] entry into ${state.fresh.noModelIn}.`;
      note("info", "warn", words, { title: "Keep a key", verb: "setKey" }, { title: "Open config.toml", verb: "openConfig" });
    }
    if (state.standing !== "") {
      note("errc", "bad", state.standing);
    }
    if (state.session !== null && state.session.ended !== "") {
      note("trash", "q", `This session is gone: ${state.session.ended}.`, { title: "New session", verb: "startSession" });
    } else if (state.session !== null && state.session.fault !== "") {
      note("errc", "bad", `What is shown may be old (${state.session.fault}). Reload the window.`, { title: "Show the log", verb: "showOutput" });
    } else if (state.session?.readOnly === true) {
      note("lock", "q", "This session can be read, not continued.");
    }
    fill(this.banner.element, ...notes);
  }

  private drawPlan(fields: Fields | null): void {
    const items = fields !== null && Array.isArray(fields["items"]) ? (fields["items"] as readonly Fields[]) : [];
    if (items.length === 0) {
      fill(this.plan.element);
      return;
    }
    const done = items.filter((one) => str(one, "state") === "done").length;
    const current = items.find((one) => str(one, "state") === "running") ?? items.find((one) => str(one, "state") === "pending");
    const marks = items.slice(0, 12).map((one) => h("i", { class: { done: "d", running: "n" }[str(one, "state")] ?? "" }));
    const toggle = (): void => {
      this.planOpen = !this.planOpen;
      this.showPlan(fields);
    };
    const head = button(
      "plan",
      toggle,
      { attrs: { "aria-expanded": String(this.planOpen) } },
      icon("plan", "s q"),
      h("span", { class: "num nw" }, `Plan ${done}/${items.length}`),
      h("span", { class: "seg", attrs: { "aria-hidden": "true" } }, ...marks),
      h("span", { class: "q ell grow" }, current === undefined ? "Done" : revealed(str(current, "title"), "words")),
      icon(this.planOpen ? "cd" : "cr", "s q"),
    );
    const looks: Readonly<Record<string, readonly [string, string]>> = {
      done: ["check", "ok"],
      running: ["spin", "live"],
      dropped: ["block", "q"],
      superseded: ["history", "q"],
    };
    const steps = items.map((one) => {
      const [sign, tone] = looks[str(one, "state")] ?? ["ring", "q"];
      return h("li", { class: str(one, "state") }, icon(sign, `s ${tone}`, str(one, "state")), h("span", {}, revealed(str(one, "title"), "words")));
    });
    fill(this.plan.element, head, this.planOpen && h("ol", { class: "steps" }, ...steps));
  }

  private drawMeters(session: SessionPicture | null, link: LinkState): void {
    if (session === null) {
      fill(this.meters.element);
      return;
    }
    const context = session.contextTokens === null ? "none yet" : brief(session.contextTokens);
    const spent = session.costNanoUsd === null ? (session.unpriced > 0 ? "unpriced" : "$0.00") : dollars(session.costNanoUsd);
    const at = session.seq === 0 ? "" : ` at #${grouped(session.seq)}`;
    const sync = link.kind !== "ready" ? "Not connected" : session.inSync ? `In sync${at}` : `Live${at}`;
    fill(
      this.meters.element,
      h("span", { class: "meter", title: "Tokens of the newest request to the model" }, "Context ", h("span", { class: "num" }, context)),
      session.budget !== null && budgetMeter(session.budget),
      button(
        "meter linkish q",
        () => send({ type: "verb", verb: "showUsage" }),
        { title: `${tokens(session.tokens)} in this session` },
        "Cost ",
        h("span", { class: "num" }, spent),
      ),
      h(
        "span",
        {
          class: "meter sync",
          title: session.inSync ? "The daemon’s digest of this view equals the panel’s own" : "Not yet proven equal to the daemon’s view",
        },
        h("span", { class: "num" }, sync),
      ),
    );
  }
}

/** How much of the nearest limit is used; a press sets the limits. */
function budgetMeter(budget: Budget): HTMLElement {
  const share = budget.ahead ? 0 : Math.min(1, budget.used / budget.limit);
  const bar = h("i", { class: share >= NEAR ? "near" : "" });
  bar.style.width = `${Math.round(share * 100)}%`;
  return button(
    "meter linkish q",
    () => send({ type: "verb", verb: "setBudget" }),
    { title: budget.words },
    "Budget ",
    !budget.ahead && h("span", { class: "tr", attrs: { "aria-hidden": "true" } }, bar),
    h("span", { class: "num" }, budgetBrief(budget)),
  );
}
