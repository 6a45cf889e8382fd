/**
 * Markdown of a model as a tree of harmless nodes.
 *
 * Purpose: parse text that nobody vouches for into the few kinds of nodes that the panel draws.
 * Invariant: HTML stays text; an image is its words; a link keeps its whole target; nothing in the tree can be fetched.
 * Must never: make a node for a command, a style, a class or an event from data, or more of them than a page bears.
 */

import MarkdownIt from "markdown-it";
import type { Token } from "markdown-it";

export type Node =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "break" }
  | { readonly kind: "rule" }
  | { readonly kind: "link"; readonly target: string; readonly children: readonly Node[] }
  | { readonly kind: "image"; readonly target: string; readonly text: string }
  | { readonly kind: "fence"; readonly language: string; readonly text: string }
  /** A block of too many parts, as it was written. */
  | { readonly kind: "written"; readonly text: string }
  | { readonly kind: "element"; readonly tag: Tag; readonly start: number | null; readonly children: readonly Node[] };

const TAGS = [
  "p",
  "ul",
  "ol",
  "li",
  "blockquote",
  "em",
  "strong",
  "s",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "table",
  "thead",
  "tbody",
  "tr",
  "th",
  "td",
] as const;
export type Tag = (typeof TAGS)[number];

/** Of one text that is parsed at once; longer ones are shown in part, and whole in a document of their own. */
export const MARKDOWN_CHARS_MAX = 60_000;
/** Tokens of one block, a table or a list with all that is in it; a block of more is shown as it was written. */
export const BLOCK_TOKENS_MAX = 5_000;
/** Levels of lists, quotes and emphasis. */
const NESTING_MAX = 20;

const parser = new MarkdownIt({ html: false, linkify: false, typographer: false, maxNesting: NESTING_MAX });
parser.validateLink = () => true; // no link is followed without its whole target being shown and confirmed

interface Frame {
  readonly tag: Tag | "link" | "root";
  readonly target: string;
  readonly start: number | null;
  readonly children: Node[];
}

function frame(tag: Frame["tag"], target = "", start: number | null = null): Frame {
  return { tag, target, start, children: [] };
}

function close(stack: Frame[]): void {
  const top = stack.length > 1 ? stack.pop() : undefined;
  const parent = stack.at(-1);
  if (top === undefined || parent === undefined) {
    return;
  }
  if (top.tag === "link") {
    parent.children.push({ kind: "link", target: top.target, children: top.children });
  } else if (top.tag !== "root") {
    parent.children.push({ kind: "element", tag: top.tag, start: top.start, children: top.children });
  }
}

function isTag(tag: string): tag is Tag {
  return (TAGS as readonly string[]).includes(tag);
}

function leaf(token: Token): Node | null {
  switch (token.type) {
    case "text":
    case "html_inline":
    case "html_block":
      return { kind: "text", text: token.content };
    case "code_inline":
      return { kind: "code", text: token.content };
    case "softbreak":
    case "hardbreak":
      return { kind: "break" };
    case "hr":
      return { kind: "rule" };
    case "image":
      return { kind: "image", target: String(token.attrGet("src") ?? ""), text: token.content };
    case "fence":
    case "code_block":
      return { kind: "fence", language: /^[\w+#.-]{0,20}/.exec(token.info)?.[0] ?? "", text: token.content };
    default:
      return token.content === "" ? null : { kind: "text", text: token.content };
  }
}

function build(tokens: readonly Token[], stack: Frame[]): void {
  for (const token of tokens) {
    if (token.type === "inline") {
      build(token.children ?? [], stack);
    } else if (token.nesting === 1) {
      const start = token.tag === "ol" ? Number(token.attrGet("start") ?? 1) : null;
      const link = token.type === "link_open";
      stack.push(link ? frame("link", String(token.attrGet("href") ?? "")) : frame(isTag(token.tag) ? token.tag : "p", "", start));
    } else if (token.nesting === -1) {
      close(stack);
    } else {
      const node = token.hidden ? null : leaf(token);
      if (node !== null) {
        stack.at(-1)?.children.push(node);
      }
    }
  }
}

/** The tokens of each block of the outermost level. */
function blocksOf(tokens: readonly Token[]): readonly (readonly Token[])[] {
  const blocks: Token[][] = [];
  let depth = 0;
  for (const token of tokens) {
    if (depth === 0) {
      blocks.push([]);
    }
    blocks.at(-1)?.push(token);
    depth += token.nesting;
  }
  return blocks;
}

function blockNodes(tokens: readonly Token[], lines: readonly string[]): readonly Node[] {
  const [from, to] = tokens[0]?.map ?? [0, lines.length];
  if (tokens.reduce((sum, token) => sum + 1 + (token.children?.length ?? 0), 0) > BLOCK_TOKENS_MAX) {
    return [{ kind: "written", text: lines.slice(from, to).join("\n") }];
  }
  const root = frame("root");
  const stack = [root];
  build(tokens, stack);
  while (stack.length > 1) {
    close(stack);
  }
  return root.children;
}

/** The nodes of a text. */
export function parseMarkdown(text: string): readonly Node[] {
  const shown = text.slice(0, MARKDOWN_CHARS_MAX);
  const lines = shown.split("\n");
  return blocksOf(parser.parse(shown, {})).flatMap((tokens) => blockNodes(tokens, lines));
}

/** Characters of a line from which it is clear that it goes on with no list. */
const CLEAR_CHARS = 12;
const GOES_ON = /^(\s|[-*+](\s|$)|\d{1,9}([.)]|$))/;

/** Where the last block that may still change begins: everything before it is final while text is only appended. */
export function stableLength(text: string): number {
  let fenced = false;
  let stable = 0;
  let at = 0;
  for (const line of text.split("\n")) {
    const next = text.slice(at + line.length + 1, at + line.length + 1 + CLEAR_CHARS);
    if (/^ {0,3}(```|~~~)/.test(line)) {
      fenced = !fenced;
    } else if (!fenced && line === "" && (next.length === CLEAR_CHARS || next.includes("\n")) && !GOES_ON.test(next)) {
      stable = at + 1;
    }
    at += line.length + 1;
  }
  return stable;
}
