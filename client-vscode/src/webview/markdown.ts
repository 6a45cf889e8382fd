/**
 * Nodes of markdown in the page.
 *
 * Purpose: draw the tree of `common/markdown`, and grow a streamed text without drawing it all anew.
 * Invariant: elements come from a fixed list; a link asks the extension and shows its whole target.
 * Must never: make an element that loads something (there is no img, no style, no href).
 */

import { MARKDOWN_CHARS_MAX, parseMarkdown, stableLength } from "../common/markdown.ts";
import type { Node } from "../common/markdown.ts";
import { reveal } from "../common/hidden.ts";
import { h, prose, revealed } from "./dom.ts";
import { send } from "./port.ts";

/** Of one message in the panel; the whole of a longer one opens as a document. */
export const MESSAGE_CHARS_MAX = 200_000;

function linkElement(target: string, children: readonly Node[], text: string): HTMLElement {
  const open = (event: Event): void => {
    event.preventDefault();
    send({ type: "openLink", target });
  };
  const onKey = (event: Event): void => {
    if ((event as KeyboardEvent).key === "Enter") {
      open(event);
    }
  };
  const link = h("span", { class: "link", role: "link", tabindex: 0, title: reveal(target), on: { click: open, keydown: onKey } }, prose(text));
  link.append(...children.map(draw));
  return link;
}

function draw(node: Node): HTMLElement | DocumentFragment {
  switch (node.kind) {
    case "text":
      return prose(node.text);
    case "code":
      return h("code", {}, revealed(node.text));
    case "break":
      return h("br");
    case "rule":
      return h("hr");
    case "link":
      return linkElement(node.target, node.children, "");
    case "image":
      return h(
        "span",
        { class: "noimg", title: "Images are not loaded here" },
        "image not loaded: ",
        linkElement(node.target, [], node.text || reveal(node.target)),
      );
    case "fence":
    case "written":
      return h("div", { class: "code" }, h("pre", { tabindex: 0 }, h("code", {}, revealed(node.text, "lines"))));
    case "element": {
      const start = node.start !== null && node.start !== 1 ? { start: String(node.start) } : {};
      const element = h(node.tag, { attrs: start });
      element.append(...node.children.map(draw));
      return element;
    }
  }
}

/** A text that may grow: what is final stays, the last block is drawn anew. */
export class GrowingText {
  readonly element = h("div", { class: "md" });
  private readonly tail = h("div", { class: "tail" });
  private settled = "";
  /** Up to where everything was settled when the last block had too many parts to be parsed again as it grows. */
  private floodAt: number | null = null;

  constructor() {
    this.element.append(this.tail);
  }

  show(whole: string): void {
    const text = whole.length > MESSAGE_CHARS_MAX ? whole.slice(0, MESSAGE_CHARS_MAX) : whole;
    if (!text.startsWith(this.settled)) {
      this.settled = "";
      this.floodAt = null;
      this.element.replaceChildren(this.tail);
    }
    const rest = text.slice(this.settled.length);
    const stable = stableLength(rest);
    if (stable > 0) {
      this.tail.before(...parseMarkdown(rest.slice(0, stable)).map(draw));
      this.settled = text.slice(0, this.settled.length + stable);
    }
    const last = rest.slice(stable);
    const isFlood = this.floodAt === this.settled.length;
    const nodes: readonly Node[] = isFlood ? [{ kind: "written", text: last.slice(0, MARKDOWN_CHARS_MAX) }] : parseMarkdown(last);
    this.floodAt = nodes.at(-1)?.kind === "written" ? this.settled.length : null;
    this.tail.replaceChildren(...nodes.map(draw));
    if (last.length > MARKDOWN_CHARS_MAX) {
      this.tail.append(h("p", { class: "q" }, `${last.length - MARKDOWN_CHARS_MAX} more characters in this paragraph`));
    }
  }
}
