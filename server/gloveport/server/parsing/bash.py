"""Shell text to a syntax tree.

Purpose: the door of tree-sitter and its grammar for bash.
Invariant: a tree past the limits has no root; texts that `text_doubt` speaks against never reach the parser.
Must never: leave anything of the parser's own in the result.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gloveport.server.policy.shell.tree import SHELL_DEPTH_MAX, SHELL_NODES_MAX, Node, Tree, text_doubt

if TYPE_CHECKING:
    import tree_sitter

TREES_CACHED_MAX: Final = 64


@lru_cache(maxsize=TREES_CACHED_MAX)
def parse_bash(text: str) -> Tree | None:
    """The tree of a shell text; None where the text is not parsed at all."""
    if text_doubt(text) is not None:
        return None
    source = text.encode("utf-8")
    counted = [0]
    return Tree(source, _copied(_parser().parse(source).root_node, 0, counted))


@lru_cache(maxsize=1)
def _parser() -> "tree_sitter.Parser":
    import tree_sitter  # late: a daemon whose sessions start no shell never loads it
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _copied(node: "tree_sitter.Node", depth: int, counted: list[int]) -> Node | None:
    counted[0] += 1
    if depth > SHELL_DEPTH_MAX or counted[0] > SHELL_NODES_MAX:
        return None
    children: list[Node] = []
    for child in node.children:
        copied = _copied(child, depth + 1, counted)
        if copied is None:
            return None
        children.append(copied)
    broken = node.is_error or node.is_missing
    return Node(node.type, node.start_byte, node.end_byte, tuple(children), broken)
