"""Shell text: what is taken apart is what a second parser finds, and nothing breaks the first one."""

import json
import os
import random
import shutil
import string
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.policy_cases import understood
from tests.kit.require import require
from tests.kit.shell import nasty, ordinary

from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.shell.script import Simple, read_script
from gloveport.server.policy.shell.tree import text_doubt
from gloveport.server.policy.shell.understood import understand

FUZZED = int(os.environ.get("GLOVEPORT_FUZZED", "4000"))
PIECES = (
    "ls", "cat", "git", "status", "grep", "-n", "-la", "--", "'a b'", '"c d"', "''", '""', "x", "src/a.py", "rm", "$x",
    "${x}", "$(id)", "`id`", "<(id)", "*", "?", "[a]", "{a,b}", "~", "\\", "\\\n", "'", '"', ";", "&&", "||", "|", "&",
    "|&", "\n", "(", ")", "{", "}", ">", ">>", "<", "<<", "<<<", ">&", "2>&1", "2>/dev/null", "&>", "!", "#", "# c\n",
    "A=1", "a=(b)", "if", "then", "fi", "for", "do", "done", "case", "esac", "<<EOF\n", "EOF\n", "\nEOF\n", "'EOF'",
    "\t", "\r", "\u00a0", "\u202e", "é", "$'x'", "((", "))", "[[", "]]", "function", "coproc", "time", "0", "-1", "=",
)  # fmt: skip
BLANKS = ("", " ", " ", " ", "  ", "\n", "\t")


def fuzzed(count: int, seed: int) -> Iterator[str]:
    """Texts of pieces of shell grammar, of any characters, and of both."""
    rng = random.Random(seed)
    characters = string.printable + "\x00\x1b\u00a0\u2028é𝕏\ud7ff"
    for at in range(count):
        if at % 3 == 0:
            yield "".join(rng.choice(characters) for _ in range(rng.randrange(40)))
            continue
        words = [rng.choice(PIECES) for _ in range(rng.randrange(1, 14))]
        text = "".join(word + rng.choice(BLANKS) for word in words)
        if at % 3 == 1 and text:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice(characters) + text[place + rng.randrange(2) :]
        yield text


HANDED_OVER = (
    "E", " E", "E ", "\tE", "EE", "E\\", "E;", "E #", "-E", "'E'", "F", " F", "F ", "", "x", "#", "\\", "é", "ls",
    "cat <<F", "cat <<'F'", "cat <<E", "cat <<'E' >a", "ls; cat <<E", "cat <<E | wc", "cat <<E && ls", "cat <<E <<F",
)  # fmt: skip


def handed_over(count: int, seed: int) -> Iterator[str]:
    """Lines behind a text that is handed over: which of them ends it, and which are commands, is not plain."""
    rng = random.Random(seed)
    for _ in range(count):
        lines = [rng.choice(HANDED_OVER) for _ in range(rng.randrange(2, 8))]
        yield "\n".join([f"cat <<{rng.choice(('E', repr('E')))}", *lines, *("",) * rng.randrange(2)])


def second_opinion(text: str) -> list[tuple[str, ...]] | None:
    """The simple commands that shfmt finds, in their order, each word as it is literally; None: no shell text."""
    ran = subprocess.run(
        ["shfmt", "-ln", "bash", "--to-json"], input=text.encode(), capture_output=True, check=False, timeout=100
    )
    return list(_calls(json.loads(ran.stdout))) if ran.returncode == 0 else None


def _calls(node: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(node, list):
        for one in node:
            yield from _calls(one)
    elif isinstance(node, dict):
        if "Args" in node or "Assigns" in node:
            yield tuple(_literal(word) for word in node.get("Args") or ())
        for name, value in node.items():
            if name not in ("Args", "Redirs", "Assigns"):
                yield from _calls(value)


def _literal(word: dict[str, Any]) -> str:
    return "".join(_part(part) for part in word["Parts"])


def _part(part: dict[str, Any]) -> str:
    if "Parts" in part or part.get("Type") == "DblQuoted":
        return "".join(_part(one) for one in part.get("Parts") or ())
    return str(part.get("Value", ""))


def agrees(text: str) -> None:
    """Fail when the text is taken apart and shfmt finds other commands."""
    script = read_script(parse_bash(text)) if text_doubt(text) is None else None
    if script is None or script.doubts:
        return
    second = second_opinion(text)
    assert second is not None, f"shfmt can't read what was taken apart: {text!r}"
    assert [one.words for one in script.commands] == second, text


@pytest.fixture(scope="module", autouse=True)
def oracle() -> None:
    """The second parser."""
    require(shutil.which("shfmt") is not None, "shfmt is not installed")


def test_both_parsers_find_the_same_commands_in_both_sets() -> None:
    """The second opinion covers both sets whole; most of the ordinary lines are taken apart at all."""
    texts = [*ordinary(), *(case.text for case in nasty() if case.text is not None)]
    for text in texts:
        agrees(text)
    apart = [line for line in ordinary() if not read_script(parse_bash(line)).doubts]
    assert len(apart) > 0.85 * len(ordinary())


def test_both_parsers_find_the_same_commands_in_made_up_texts() -> None:
    """Pieces of shell grammar in any order; many of them are taken apart, or nothing would have been compared."""
    apart = [
        text for text in fuzzed(FUZZED, 7) if text_doubt(text) is None and not read_script(parse_bash(text)).doubts
    ]
    assert len(apart) > FUZZED / 100
    ending = [text for text in handed_over(FUZZED // 2, 5) if not read_script(parse_bash(text)).doubts]
    assert len(ending) > FUZZED / 100
    for text in (*apart[:400], *ending[:200]):
        agrees(text)


def test_the_second_opinion_finds_a_planted_miss() -> None:
    """A reader that dropped a command would be caught."""
    assert second_opinion("ls; rm x") != [("ls",)]
    assert second_opinion("ls 'a b' \"c\"d") == [("ls", "a b", "cd")]


def test_nothing_breaks_the_reader() -> None:
    """Any text has an answer, and a hidden or control character is always a doubt."""
    for text in fuzzed(FUZZED, 11):
        known = understand(("bash", "-c", text), parse_bash)
        assert known.is_text
        if any(character not in "\n\t" and not character.isprintable() for character in text):
            assert known.doubts


WORD = st.text(alphabet=string.ascii_letters + string.digits + "-_./=:@%+,", min_size=1, max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=6))
def test_words_in_single_quotes_are_those_words(words: list[str]) -> None:
    """What is literal by its quotes is the same as an argument vector, and judged the same."""
    text = " ".join(f"'{word}'" for word in words)
    script = read_script(parse_bash(text))
    assert script.commands == (Simple(tuple(words), is_step=True),)
    in_text, as_words = understood(("bash", "-c", text)), understood(tuple(words))
    if not in_text.doubts and words[0] not in ("cd", ":"):
        assert not as_words.doubts
        assert in_text.effects == as_words.effects
