"""A tree that says something else than the parser would is never taken for a command without a doubt.

Purpose: the reader of trees does not rest on what one parser happens to give: each node is changed in turn.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.kit.shell import ordinary

from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.shell.script import Redirect, Script, Simple, read_script
from gloveport.server.policy.shell.tree import SHELL_CHARS_MAX, Node, Tree, text_doubt

LINES = (
    *[line for line in ordinary() if not read_script(parse_bash(line)).doubts][::6],
    "A=1 B= x 'a'b\"c\" 2>&1 >> f",
    "x && y | z",
    "! x < a",
    "x <<'E' >a\nhi\nE\n",
    "x; # c\ny",
    "x <<E\nhi\nE\n",
)
Change = Callable[[Node], list[Node]]


def tree(text: str) -> Tree:
    """The parser's tree of a text."""
    found = parse_bash(text)
    assert found is not None
    return found


def changed(node: Node, change: Change, above: str = "") -> Iterator[tuple[Node, Node, str]]:
    """Every tree with one node changed: the tree, the node that was changed, the kind of what holds it."""
    for one in change(node):
        yield one, node, above
    for at, child in enumerate(node.children):
        for one, what, where in changed(child, change, node.kind):
            yield replace(node, children=(*node.children[:at], one, *node.children[at + 1 :])), what, where


def without_one(node: Node) -> list[Node]:
    """Each child left out in turn."""
    return [replace(node, children=node.children[:at] + node.children[at + 1 :]) for at in range(len(node.children))]


def turned_round(node: Node) -> list[Node]:
    """Each two neighbours in the other order."""
    return [
        replace(node, children=(*node.children[:at], *node.children[at : at + 2][::-1], *node.children[at + 2 :]))
        for at in range(len(node.children) - 1)
    ]


def of_no_kind(node: Node) -> list[Node]:
    """A node that the grammar does not have."""
    return [replace(node, kind="zebra_crossing")]


def cut(node: Node) -> list[Node]:
    """Children that end before they end, or begin after they begin."""
    return [] if node.end - node.start < 2 else [replace(node, end=node.end - 1), replace(node, start=node.start + 1)]


INSIDE_QUOTES = ("string", "string_content")
"""What stands between double quotes is read from the text itself."""


@pytest.mark.parametrize("text", LINES)
def test_no_changed_tree_is_read_without_a_doubt(text: str) -> None:
    found = tree(text)
    assert found.root is not None
    assert not read_script(found).doubts
    for change in (of_no_kind, without_one, turned_round, cut):
        for root, what, above in changed(found.root, change):
            script = read_script(Tree(found.source, root))
            is_quoted = what.kind in INSIDE_QUOTES and change is not of_no_kind
            is_whole = change is cut and (above in {"", "command_name"} or what.kind == "heredoc_body")
            assert script.doubts or is_quoted or is_whole, (change.__name__, what, above)


BROKEN = ("program", "command", "list", "pipeline", "negated_command", "redirected_statement", "word", "number",
          "raw_string", "string", "concatenation")  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_what_the_parser_put_in_or_could_not_read_is_a_doubt(text: str) -> None:
    found = tree(text)
    assert found.root is not None
    for root, what, _ in changed(found.root, lambda node: [replace(node, broken=True)]):
        if what.kind in BROKEN:
            doubts = read_script(Tree(found.source, root)).doubts
            assert doubts == ("the command text can't be read as shell text",), what


def edited(text: str, *path: int, **change: object) -> Script:
    """What is read where the node at this path has other fields."""

    def at(node: Node, left: tuple[int, ...]) -> Node:
        if not left:
            return replace(node, **change)  # type: ignore[arg-type]  # - fields of a node
        inner = at(node.children[left[0]], left[1:])
        return replace(node, children=(*node.children[: left[0]], inner, *node.children[left[0] + 1 :]))

    found = tree(text)
    assert found.root is not None
    return read_script(Tree(found.source, at(found.root, path)))


def nodes(text: str, *path: int) -> tuple[Node, ...]:
    """The children of the node at this path."""
    node = tree(text).root
    assert node is not None
    for at in path:
        node = node.children[at]
    return node.children


X = Simple(("x",), is_step=True)
SET = Node("variable_assignment", 0, 3, (Node("variable_name", 0, 1), Node("=", 1, 2), Node("number", 2, 3)))
HERE = "x <<'E' >a\nhi\nE\n"
UNREADABLE = "the command text can't be read as shell text"
JOINED = "commands are joined in a way that is not known"
NAMELESS = "a command has no name"
HANDED = "a text is handed over in a way that is not known"
ENDS = "where a text that is handed over ends can't be told"
FILES = "a redirect names more than one file"
VARIABLE = "a variable is set in a way that is not known"
NO_WORD = "it holds characters that belong to no word"


@pytest.mark.parametrize(
    ("script", "doubt"),
    [
        (lambda: read_script(None), "the command text can't be taken apart"),
        (lambda: read_script(Tree(b"x", None)), "the command text can't be taken apart"),
        (lambda: read_script(tree("# c")), "the command text holds no command"),
        (lambda: edited("x", kind="list"), UNREADABLE),
        (lambda: edited("x", broken=True), UNREADABLE),
        (lambda: edited("x", 0, kind="odd_thing"), "it holds odd thing"),
        (lambda: edited("x", 0, kind="subshell"), "it holds a subshell"),
        (lambda: edited("x y", 0, 1, kind="odd_thing"), "it holds odd thing"),
        (lambda: edited("x y", 0, 1, kind="expansion"), "it holds a variable"),
        (lambda: edited("x && y", 0, 1, kind="&"), JOINED),
        (lambda: edited("x && y", 0, children=nodes("x && y", 0)[:2]), NO_WORD),
        (lambda: edited("x&&y", 0, children=nodes("x&&y", 0) + nodes("x&&y", 0)[2:]), JOINED),
        (lambda: edited("x | y", 0, 1, kind="|&"), "it holds |&"),
        (lambda: edited("! x", 0, 0, kind="?"), "it holds negated command"),
        (lambda: edited("x >a", 0, 0, kind="subshell"), "something is redirected that is no command"),
        (lambda: edited("x >a", 0, 1, kind="odd_redirect"), "it holds odd redirect"),
        (lambda: edited("x >a", 0, 1, 0, kind=">?"), "it redirects with >?"),
        (lambda: edited("x >&a", 0, 1, 0, kind=">&"), "it redirects with >&"),
        (lambda: edited("x >a", 0, 1, 1, kind="file_descriptor"), FILES),
        (lambda: edited("x 2>a", 0, 1, 1, kind="file_descriptor"), FILES),
        (lambda: edited("x y", 0, 0, kind="word"), NAMELESS),
        (lambda: edited("x", 0, children=()), NO_WORD),
        (lambda: read_script(Tree(b"A=1", Node("program", 0, 3, (Node("command", 0, 3, (SET,)),)))), NAMELESS),
        (lambda: edited("A=1 x", 0, 1, kind="variable_assignment"), VARIABLE),
        (lambda: edited("A=1 x", 0, 0, 0, kind="subscript"), VARIABLE),
        (lambda: edited("A=1 x", 0, 0, 1, kind="+="), VARIABLE),
        (lambda: edited(HERE, 0, 1, 0, kind="<<-"), HANDED),
        (lambda: edited(HERE, 0, 1, 1, kind="heredoc_end"), HANDED),
        (lambda: edited(HERE, 0, 1, 3, children=(Node("x", 11, 12),)), ENDS),
        (lambda: edited(HERE, 0, 1, 1, start=5), NO_WORD),
        (lambda: read_script(tree("x <<$E\nhi\n$E\n")), "a text that is handed over may be expanded"),
        (lambda: read_script(tree("x <<E\n$hi\nE\n")), "a text that is handed over may be expanded"),
        (lambda: read_script(tree("x <<'E'\n$hi\nE\n")), "a text that is handed over may be expanded"),
        (lambda: read_script(tree("x; # c\\\ny")), "where a comment ends can't be told"),
        (lambda: read_script(tree("if x")), UNREADABLE),
        (lambda: read_script(tree('x "!y"')), "a quoted text holds something that the shell expands"),
        (lambda: read_script(tree("x a'b'*c")), "the shell may expand '*c'"),
        (lambda: read_script(tree(f"x {'*' * 90}")), f"the shell may expand '{'*' * 59}"),
        (lambda: read_script(tree("x>a")), "a redirect touches what stands before it"),
    ],
    ids=range(39),
)
def test_a_doubt_in_its_words(script: Callable[[], Script], doubt: str) -> None:
    assert script().doubts == (doubt,)


def test_what_was_found_before_a_doubt_is_kept() -> None:
    assert edited("x && y", 0, 2, kind="subshell").commands == (X,)
    assert read_script(tree("# c")) == Script((), ("the command text holds no command",))
    assert read_script(None).commands == ()


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("x", (X,)),
        ("x; y", (Simple(("x",)), Simple(("y",)))),
        ("x\ny", (Simple(("x",)), Simple(("y",)))),
        ("x;# c", (X,)),
        ("x && y", (X, Simple(("y",), is_step=True))),
        ("x || y", (Simple(("x",)), Simple(("y",)))),
        ("x && y || z", (Simple(("x",)), Simple(("y",)), Simple(("z",)))),
        ("x && y; z", (Simple(("x",)), Simple(("y",)), Simple(("z",)))),
        ("x | y | z", (Simple(("x",)), Simple(("y",)), Simple(("z",)))),
        ("x && y | z", (X, Simple(("y",)), Simple(("z",)))),
        ("! x", (Simple(("x",)),)),
        ("A=1 B= C='a b' x", (Simple(("x",), (("A", "1"), ("B", ""), ("C", "a b")), (), True),)),
        ("x >a", (Simple(("x",), (), (Redirect("write", "a"),), True),)),
        ("x >>a <b", (Simple(("x",), (), (Redirect("write", "a"), Redirect("read", "b")), True),)),
        ("x >|a", (Simple(("x",), (), (Redirect("write", "a"),), True),)),
        ("x &>a", (Simple(("x",), (), (Redirect("write", "a"),), True),)),
        ("x &>>a", (Simple(("x",), (), (Redirect("write", "a"),), True),)),
        (">a 2>b <c x y", (Simple(("x", "y"), (), tuple(map(Redirect, ("write", "write", "read"), "abc")), True),)),
        (">a A=1 x", (Simple(("x",), (("A", "1"),), (Redirect("write", "a"),), True),)),
        ("x 2>&1", (Simple(("x",), (), (Redirect("none", "1"),), True),)),
        ("x | y >a", (Simple(("x",)), Simple(("y",), (), (Redirect("write", "a"),)))),
        (HERE, (Simple(("x",), (), (Redirect("write", "a"),), True),)),
        ("x <<E\nhi\nE\n", (X,)),
        ('x <<"E"\nhi\n\nyou\nE\n', (X,)),
        ("x 'a b'c\"d e\"f '' \"\" 1", (Simple(("x", "a bcd ef", "", "", "1"), is_step=True),)),
        ('x a\'b\'1\'c\'2 "a$" "!" "! a"', (Simple(("x", "ab1c2", "a$", "!", "! a"), is_step=True),)),
        ("x a=b a#b a!b a~b", (Simple(("x", "a=b", "a#b", "a!b", "a~b"), is_step=True),)),
    ],
)
def test_a_text_is_read_as_the_shell_would(text: str, commands: tuple[Simple, ...]) -> None:
    assert read_script(tree(text)) == Script(commands, ())


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("x" * SHELL_CHARS_MAX, None),
        ("x" * (SHELL_CHARS_MAX + 1), "the command text is too long to be understood"),
        (" \t\n !~é", None),
        ("", None),
        ("a\rb", "it holds the character U+000D, which can't be seen as what it is"),
        ("a\x7f", "it holds the character U+007F, which can't be seen as what it is"),
        ("a\u00a0", "it holds the character U+00A0, which can't be seen as what it is"),
        ("\u2028\u202e", "it holds the character U+2028, which can't be seen as what it is"),
        ("\u202ex", "it holds the character U+202E, which can't be seen as what it is"),
        ("\U000e0041", "it holds the character U+E0041, which can't be seen as what it is"),
        ("\ue000", "it holds the character U+E000, which can't be seen as what it is"),
        ("\ud800", "it holds the character U+D800, which can't be seen as what it is"),
        ("\u0378", "it holds the character U+0378, which can't be seen as what it is"),
        ("\u2029", "it holds the character U+2029, which can't be seen as what it is"),
    ],
    ids=range(14),
)
def test_which_texts_are_not_even_parsed(text: str, doubt: str | None) -> None:
    assert text_doubt(text) == doubt


def test_a_text_of_a_node_is_its_bytes() -> None:
    found = tree("x é y")
    assert found.text(Node("word", 2, 4)) == "é"
    assert found.text(Node("word", 2, 3)) == "\ufffd"


@pytest.mark.parametrize("order", [(0, 2, 1, 3, 4), (0, 1, 3, 4, 2), (2, 0, 1, 3, 4)])
def test_the_parts_of_a_text_that_is_handed_over_stand_in_one_order(order: tuple[int, ...]) -> None:
    """What is redirected beside it stands between the mark and the text, and nowhere else."""
    parts = nodes(HERE, 0, 1)
    assert [one.kind for one in parts] == ["<<", "heredoc_start", "file_redirect", "heredoc_body", "heredoc_end"]
    assert edited(HERE, 0, 1, children=tuple(parts[at] for at in order)).doubts == (HANDED,)


def test_a_text_in_single_quotes_holds_none() -> None:
    for text, doubts in (("'ab'", ()), ("'a'b'", ("it holds raw string",)), ("'", ("it holds raw string",))):
        source = f"x {text}".encode()
        name = Node("command_name", 0, 1, (Node("word", 0, 1),))
        command = Node("command", 0, len(source), (name, Node("raw_string", 2, len(source))))
        assert read_script(Tree(source, Node("program", 0, len(source), (command,)))).doubts == doubts


@pytest.mark.parametrize("word", ['"a"b"', '"a"b', 'a"', '"', '""a"', '"$a"', '"`"', '"\\\\"', '"a\\"', '"!a"'])
def test_what_is_said_to_be_quoted_is_looked_at_as_it_stands(word: str) -> None:
    """Whatever a parser says where a text in quotes begins and ends."""
    source = f"x {word}".encode()
    name = Node("command_name", 0, 1, (Node("word", 0, 1),))
    command = Node("command", 0, len(source), (name, Node("string", 2, len(source))))
    script = read_script(Tree(source, Node("program", 0, len(source), (command,))))
    assert script.doubts == ("a quoted text holds something that the shell expands",)


EXPANDED = (
    "~a", "#a", "!a", "a*", "a?", "a[", "{a", "a}", "$a", "`", "a'", 'a"', "(", "<", "|", "&", ";", "a=~b", "a:~b",
    "\\a", "é\n",
)  # fmt: skip


@pytest.mark.parametrize("word", EXPANDED)
def test_what_is_said_to_be_a_plain_word_is_looked_at_as_it_stands(word: str) -> None:
    for kind in ("word", "number"):
        source = f"x {word}".encode()
        name = Node("command_name", 0, 1, (Node("word", 0, 1),))
        command = Node("command", 0, len(source), (name, Node(kind, 2, len(source))))
        script = read_script(Tree(source, Node("program", 0, len(source), (command,))))
        assert script.doubts == (f"the shell may expand {word!r}",)
