"""A syntax tree as plain data, and which texts are worth one.

Purpose: the shapes that the parser's room hands over, with their limits.
Invariant: every node names the bytes it stands for, so that what lies between two nodes can be looked at.
Must never: hold anything of a parser's own.
"""

import unicodedata
from dataclasses import dataclass
from typing import Final

SHELL_CHARS_MAX: Final = 4_096
SHELL_NODES_MAX: Final = 4_096
SHELL_DEPTH_MAX: Final = 48

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its kind by the grammar's name, where it stands (bytes, UTF-8), and what is in it.

    `broken`: the parser put it in, or could not read it.
    """

    kind: str
    start: int
    end: int
    children: tuple["Node", ...] = ()
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed text; its root is None where the tree went past the limits."""

    source: bytes
    root: Node | None

    def text(self, node: Node) -> str:
        """What the node stands for."""
        return self.source[node.start : node.end].decode("utf-8", "replace")


def text_doubt(text: str) -> str | None:
    """Why a text is not even parsed, in words, or None: too long, or with characters that are not what they seem."""
    if len(text) > SHELL_CHARS_MAX:
        return "the command text is too long to be understood"
    for character in text:
        plain = character in " \t\n" or " " < character <= "~"
        if not plain and unicodedata.category(character) in _HIDDEN:
            return f"it holds the character U+{ord(character):04X}, which can't be seen as what it is"
    return None
