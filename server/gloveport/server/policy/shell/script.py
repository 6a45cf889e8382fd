"""From a syntax tree to simple commands.

Purpose: read a tree through a list of nodes that are known to mean exactly what they say.
Invariant: a node, a character between nodes or a word that is not on the list is a doubt; words are what the shell
would hand to the program, byte for byte.
Must never: expand, guess, or leave a part of the text out without a doubt.
"""

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from gloveport.server.policy.shell.tree import Node, Tree

RedirectKind = Literal["read", "write", "none"]

_BLANK: Final = frozenset(b" \t")
_SPACE: Final = frozenset(b" \t\n")
_INSIDE: Final = re.compile(r"[^\s\\*?\[\]{}$`'\"()<>|&;]*")
_QUOTED_DOUBT: Final = re.compile(r"`|!(?![\s=(]|$)|\$(?!$)|\\[$`\"\\\n]|\\$")
_HEREDOC_DOUBT: Final = re.compile(r"[`$\\]")
_QUOTED_MARK: Final = re.compile(r"'[A-Za-z0-9_]+'|\"[A-Za-z0-9_]+\"")
_PLAIN_MARK: Final = re.compile(r"[A-Za-z0-9_]+")
_READS: Final = frozenset({"<"})
_WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>"})
_COPIES: Final = frozenset({">&"})
_RESERVED: Final = frozenset(
    "if then else elif fi for while until do done case esac select function coproc in let time { } [[ ]] !".split()
)
_KINDS: Final = MappingProxyType(
    {
        "command_substitution": "a command in a command",
        "process_substitution": "a command in place of a file",
        "simple_expansion": "a variable",
        "expansion": "a variable",
        "arithmetic_expansion": "arithmetic",
        "ansi_c_string": "a text with escapes",
        "translated_string": "a translated text",
        "brace_expression": "braces",
        "subshell": "a subshell",
        "&": "a command in the background",
    }
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell itself opens for a command; `none`: a text or another of its own streams."""

    kind: RedirectKind
    target: str


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command as the shell would start it. `is_step`: it runs in the shell itself, after `&&` alone."""

    words: tuple[str, ...]
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    is_step: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """All simple commands in their order, and every reason why more may happen than they say."""

    commands: tuple[Simple, ...]
    doubts: tuple[str, ...]


class _DoubtError(Exception):
    """A part that is not known to mean what it says."""


def read_script(tree: Tree | None) -> Script:
    """The commands of a tree; without one, or with anything unknown in it, with doubts."""
    if tree is None or tree.root is None:
        return Script((), ("the command text can't be taken apart",))
    reader = _Reader(tree)
    try:
        reader.program(tree.root)
    except _DoubtError as doubt:
        return Script(tuple(reader.found), (str(doubt),))
    if not reader.found:
        return Script((), ("the command text holds no command",))
    return Script(tuple(reader.found), ())


class _Reader:
    """Walks one tree; what it has found so far is kept also when it stops at a doubt."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.found: list[Simple] = []

    def program(self, root: Node) -> None:
        """Statements, parted by `;` or line ends."""
        if root.kind != "program" or root.broken:
            raise _DoubtError("the command text can't be read as shell text")
        self._between(0, root, len(self._tree.source))
        if any(child.kind == "comment" and "\\" in self._tree.text(child) for child in root.children):
            raise _DoubtError("where a comment ends can't be told")
        statements = [child for child in root.children if child.kind not in {";", "comment"}]
        for one, two in zip(root.children, root.children[1:], strict=False):
            parted = ";" in (one.kind, two.kind) or b"\n" in self._tree.source[one.start : two.start]
            if not parted and two.kind != "comment":
                raise _DoubtError("two commands stand beside each other")
        for statement in statements:
            self._statement(statement, is_step=len(statements) == 1)

    def _statement(self, node: Node, *, is_step: bool) -> None:
        if node.broken:
            raise _DoubtError("the command text can't be read as shell text")
        match node.kind:
            case "command":
                self._command(node, is_step)
            case "list":
                self._between(node.start, node, node.end)
                first, operator, second = self._three(node, {"&&", "||"})
                in_step = is_step and operator == "&&"
                self._statement(first, is_step=in_step)
                self._statement(second, is_step=in_step)
            case "pipeline":
                self._between(node.start, node, node.end)
                for at, child in enumerate(node.children):
                    if at % 2 == 0:
                        self._statement(child, is_step=False)
                    elif child.kind != "|":
                        raise _DoubtError(f"it holds {child.kind}")
            case "negated_command" if [child.kind for child in node.children[:1]] == ["!"] and len(node.children) == 2:
                self._between(node.start, node, node.end, _BLANK)
                self._statement(node.children[1], is_step=False)
            case "redirected_statement":
                self._redirected(node, is_step)
            case _:
                raise _DoubtError(f"it holds {_KINDS.get(node.kind, node.kind.replace('_', ' '))}")

    def _three(self, node: Node, operators: set[str]) -> tuple[Node, str, Node]:
        if len(node.children) != 3 or node.children[1].kind not in operators:
            raise _DoubtError("commands are joined in a way that is not known")
        return node.children[0], node.children[1].kind, node.children[2]

    def _redirected(self, node: Node, is_step: bool) -> None:
        self._between(node.start, node, node.end)
        body, *redirects = node.children
        if body.kind not in {"command", "pipeline", "list", "negated_command"}:
            raise _DoubtError("something is redirected that is no command")
        self._statement(body, is_step=is_step)
        found = tuple(one for redirect in redirects for one in self._redirect(redirect))
        last = self.found[-1]
        self.found[-1] = replace(last, redirects=(*last.redirects, *found))

    def _command(self, node: Node, is_step: bool) -> None:
        self._between(node.start, node, node.end, _BLANK)
        self._apart(node)
        words: list[str] = []
        assignments: list[tuple[str, str]] = []
        redirects: list[Redirect] = []
        for child in node.children:
            if child.kind == "variable_assignment" and not words:
                assignments.append(self._assignment(child))
            elif child.kind == "file_redirect":
                redirects += self._redirect(child)
            elif child.kind == "command_name" and not words and len(child.children) == 1:
                words.append(self._name(child.children[0]))
            elif words:
                words.append(self._word(child))
            else:
                raise _DoubtError("a command has no name")
        if not words:
            raise _DoubtError("a command has no name")
        self.found.append(Simple(tuple(words), tuple(assignments), tuple(redirects), is_step))

    def _name(self, node: Node) -> str:
        if self._tree.text(node) in _RESERVED:
            raise _DoubtError("a word of the shell's own stands where a command would")
        return self._word(node)

    def _assignment(self, node: Node) -> tuple[str, str]:
        self._between(node.start, node, node.end, frozenset())
        kinds = [child.kind for child in node.children]
        if kinds[:2] != ["variable_name", "="] or len(kinds) > 3:
            raise _DoubtError("a variable is set in a way that is not known")
        value = self._word(node.children[2]) if len(kinds) == 3 else ""
        return self._tree.text(node.children[0]), value

    def _redirect(self, node: Node) -> tuple[Redirect, ...]:
        if node.start > 0 and self._tree.source[node.start - 1] not in _SPACE:
            raise _DoubtError("a redirect touches what stands before it")
        match node.kind:
            case "file_redirect":
                return (self._file(node),)
            case "heredoc_redirect":
                return self._heredoc(node)
            case _:
                raise _DoubtError(f"it holds {node.kind.replace('_', ' ')}")

    def _file(self, node: Node) -> Redirect:
        self._between(node.start, node, node.end, _BLANK)
        children = [child for child in node.children if child.kind != "file_descriptor"]
        if len(children) != 2 or len(node.children) - len(children) > 1:
            raise _DoubtError("a redirect names more than one file")
        operator, target = children[0].kind, self._word(children[1])
        if operator in _COPIES and target.isdecimal():
            return Redirect("none", target)
        if operator in _READS:
            return Redirect("read", target)
        if operator in _WRITES:
            return Redirect("write", target)
        raise _DoubtError(f"it redirects with {operator}")

    def _heredoc(self, node: Node) -> tuple[Redirect, ...]:
        """A text up to a mark, taken where nothing in it could be expanded, whatever the mark says."""
        kinds = [child.kind for child in node.children]
        beside = [child for child in node.children if child.kind == "file_redirect"]
        if [kind for kind in kinds if kind != "file_redirect"] != [
            "<<",
            "heredoc_start",
            "heredoc_body",
            "heredoc_end",
        ]:
            raise _DoubtError("a text is handed over in a way that is not known")
        if kinds[:2] != ["<<", "heredoc_start"] or kinds[-2:] != ["heredoc_body", "heredoc_end"]:
            raise _DoubtError("a text is handed over in a way that is not known")
        self._between(node.start, node, node.end)
        start, body = self._tree.text(node.children[1]), node.children[-2]
        mark, text = start.strip("'\""), self._tree.text(body)
        is_quoted = _QUOTED_MARK.fullmatch(start) is not None
        if (not is_quoted and _PLAIN_MARK.fullmatch(start) is None) or _HEREDOC_DOUBT.search(text):
            raise _DoubtError("a text that is handed over may be expanded")
        lines = text.split("\n")
        end, source = node.children[-1], self._tree.source
        # the parser takes an indented mark, or one with blanks behind it, for the end; the shell does not
        is_alone = source[end.start - 1 : end.start] == b"\n" and source[end.end : end.end + 1] in {b"", b"\n"}
        if body.children or mark in lines or self._tree.text(end) != mark or not is_alone:
            raise _DoubtError("where a text that is handed over ends can't be told")
        return tuple(self._file(one) for one in beside)

    def _word(self, node: Node) -> str:
        if node.broken:
            raise _DoubtError("the command text can't be read as shell text")
        text = self._tree.text(node)
        match node.kind:
            case "word" | "number" if not node.children:
                return _plain(text)
            case "raw_string" if not node.children and len(text) > 1 and "'" not in text[1:-1]:
                return text[1:-1]
            case "string" if {child.kind for child in node.children} <= {'"', "string_content", "$"}:
                return _quoted(text)
            case "concatenation":
                self._between(node.start, node, node.end, frozenset())
                return "".join(self._piece(child, first=at == 0) for at, child in enumerate(node.children))
            case _:
                raise _DoubtError(f"it holds {_KINDS.get(node.kind, node.kind.replace('_', ' '))}")

    def _piece(self, node: Node, *, first: bool) -> str:
        if node.kind in {"word", "number"} and not node.children and not node.broken and not first:
            text = self._tree.text(node)
            if _INSIDE.fullmatch(text) is None or text.startswith("#"):
                raise _DoubtError(f"the shell may expand {text!r:.60}")
            return text
        return self._word(node)

    def _between(self, start: int, node: Node, end: int, allowed: frozenset[int] = _SPACE) -> None:
        """Raise when anything but space lies around or between the children."""
        at = start
        for child in node.children:
            if not allowed.issuperset(self._tree.source[at : child.start]):
                raise _DoubtError("it holds characters that belong to no word")
            at = child.end
        if not allowed.issuperset(self._tree.source[at:end]):
            raise _DoubtError("it holds characters that belong to no word")

    def _apart(self, node: Node) -> None:
        """Raise when two words touch: whether they are one can't be told."""
        for one, two in zip(node.children, node.children[1:], strict=False):
            if one.end == two.start and "file_redirect" not in (one.kind, two.kind):
                raise _DoubtError("two words touch each other")


def _plain(text: str) -> str:
    """An unquoted word that means itself."""
    if text[:1] in {"~", "#", "!"} or _INSIDE.fullmatch(text) is None or not text:
        raise _DoubtError(f"the shell may expand {text!r:.60}")
    # behind `=` and `:` a `~` is somebody's home in assignments
    if "=~" in text or ":~" in text:
        raise _DoubtError(f"the shell may expand {text!r:.60}")
    return text


def _quoted(text: str) -> str:
    """A text in double quotes that means itself."""
    inner = text[1:-1]
    if len(text) < 2 or text[0] != '"' or text[-1] != '"' or '"' in inner or _QUOTED_DOUBT.search(inner):
        raise _DoubtError("a quoted text holds something that the shell expands")
    return inner
