"""The table of characters that are written out for a person."""

import unicodedata

from gloveport.server.policy.display import escape_display
from gloveport.server.policy.hidden import HIDDEN, HIDDEN_RANGES, UNICODE_VERSION

CODE_POINTS = 0x110000
CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me", "Zs"})
BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")


def is_hidden(character: str) -> bool:
    """By the data of the Python that runs."""
    return character != " " and (unicodedata.category(character) in CATEGORIES or character in BLANK_LETTERS)


def test_the_table_is_that_of_its_unicode() -> None:
    """Of every code point; a newer Unicode may have given letters to places that were free, and hides nothing else."""
    every = "".join(map(chr, range(CODE_POINTS)))
    table = {found.start() for found in HIDDEN.finditer(every)}
    data = {code for code, character in enumerate(every) if is_hidden(character)}
    assert data <= table
    assert unicodedata.unidata_version != UNICODE_VERSION or data == table


def test_what_the_table_names_is_written_out() -> None:
    """The first and the last of each range are not left as they are within a name."""
    for ends in HIDDEN_RANGES.split(" "):
        for end in ends.split("-"):
            assert escape_display(f"a{chr(int(end, 16))}.py").startswith("a⟨")
