/**
 * Making elements.
 *
 * Purpose: the one way in which the panel builds its page.
 * Invariant: text becomes text nodes; listeners are functions of this program; titles and labels are written out.
 * Must never: parse a string as HTML, or set an attribute that loads or runs something.
 */

import { proseParts, revealParts, revealTip, writtenParts } from "../common/hidden.ts";
import type { Kind, Part } from "../common/hidden.ts";

export type Child = Element | Text | DocumentFragment | string | null | false | undefined;

interface Props {
  readonly class?: string;
  readonly label?: string;
  readonly title?: string;
  readonly role?: string;
  readonly tabindex?: number;
  readonly attrs?: Readonly<Record<string, string>>;
  readonly on?: Readonly<Record<string, (event: Event) => void>>;
}

const SAFE_ATTRIBUTE = /^(aria-[a-z]+|role|tabindex|type|name|value|checked|disabled|open|placeholder|rows|for|id|start|data-[a-z-]+)$/;

/** An element with children; `null`, `false` and `undefined` are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: readonly Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (props.class !== undefined) {
    element.className = props.class;
  }
  if (props.label !== undefined) {
    element.setAttribute("aria-label", revealTip(props.label));
  }
  if (props.title !== undefined) {
    element.title = revealTip(props.title);
  }
  if (props.role !== undefined) {
    element.setAttribute("role", props.role);
  }
  if (props.tabindex !== undefined) {
    element.tabIndex = props.tabindex;
  }
  for (const [name, value] of Object.entries(props.attrs ?? {})) {
    if (SAFE_ATTRIBUTE.test(name)) {
      element.setAttribute(name, value);
    }
  }
  for (const [name, listener] of Object.entries(props.on ?? {})) {
    element.addEventListener(name, listener);
  }
  put(element, children);
  return element;
}

/** Add children. */
export function put(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false && child !== "") {
      element.append(child);
    }
  }
}

/** Give an element these children and no others. */
export function fill(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren();
  put(element, children);
}

/** Text of which hidden characters are shown as marked escapes. */
export function revealed(text: string, kind: Kind = "name"): DocumentFragment {
  return marked(revealParts(text, kind));
}

/** Prose of which characters that mislead the reader are shown as marked escapes. */
export function prose(text: string): DocumentFragment {
  return marked(proseParts(text));
}

/** Text that the daemon has escaped, with its escapes marked. */
export function written(text: string): DocumentFragment {
  return marked(writtenParts(text));
}

function marked(parts: readonly Part[]): DocumentFragment {
  const fragment = document.createDocumentFragment();
  for (const part of parts) {
    fragment.append(part.hidden ? h("span", { class: "esc" }, part.text) : part.text);
  }
  return fragment;
}

/** A button; the accessible name is its words unless `label` is given. */
export function button(className: string, run: () => void, props: Omit<Props, "class">, ...children: readonly Child[]): HTMLButtonElement {
  const made = h("button", { ...props, class: className, attrs: { type: "button", ...props.attrs }, on: { click: run, ...props.on } }, ...children);
  if (props.label !== undefined && props.title === undefined) {
    made.title = revealTip(props.label);
  }
  return made;
}
