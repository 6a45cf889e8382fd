"""Web addresses that the user typed.

Purpose: tell whether a request is nothing but a look at an address that stands in the user's own words.
Invariant: the whole request was fixed by those words before the model said anything, so nothing of the session leaves
with it; what is quoted, pasted, forbidden, partly equal or spelled in other letters is not typed.
Must never: read anything but the user's own messages, or answer for what carries data or is asked about for another
reason.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.findings import KERNEL, Finding

TYPED_CHARACTERS_MAX: Final = 4_000
TYPED_LINES_MAX: Final = 40
"""What is longer was hardly typed; it endorses nothing."""
ANSWERED: Final = frozenset({"builtin:network.default", f"{KERNEL}:not-your-word"})
"""The questions that a typed address answers; whatever else is asked, also by rules of the user's, stays asked."""
TYPED_WORDS: Final = "You typed this address yourself, and nothing but it is sent."

_LOOK: Final = re.compile(r"(?:GET|HEAD) (\S+)")
_ADDRESS: Final = re.compile(r"(?:(https?)://|(?=www\.))([a-z0-9.-]+)(?::([0-9]{1,5}))?([/?][!-~]*)?", re.IGNORECASE)
_PORTS: Final = (("http", "80"), ("https", "443"))
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_QUOTED_LINE: Final = re.compile(r"\s*[>|]|    |\t")
_PASTED_FROM_HERE: Final = re.compile(
    r"\s*(?:[-_=*]{3,}|begin forwarded|on .{1,200} wrote:|(?:from|to|subject|date|sent|cc):)", re.IGNORECASE
)
_QUOTES: Final = '"“”„«»`'
_QUOTATION: Final = re.compile(f"[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]")
_SENTENCE: Final = re.compile(r"[.!?;](?=\s)|\n")
_NEGATIONS: Final = frozenset(
    {"not", "no", "never", "without", "avoid", "except", "nor", "dont", "don", "doesn", "shouldn", "mustn", "stop"}
)
_WORD: Final = re.compile(r"[^\W_]+")
_AROUND: Final = "()[]{}<>,;:!?." + _QUOTES + "'’"


def is_typed_look(typed: Iterable[str], sends: str) -> bool:
    """True if all that leaves (`sends`, in the words of the card) is a request for an address that the user typed."""
    look = _LOOK.fullmatch(sends)
    address = None if look is None else _canonical(look[1])
    return address is not None and any(address in _addresses(text) for text in typed)


def words_answer(is_typed: bool, asks: Sequence[Finding]) -> bool:
    """True if the user's own words answer all that is asked."""
    return is_typed and all(
        ask.rule_id in ANSWERED and ask.effect is not None and ask.effect.kind is EffectKind.network for ask in asks
    )


def _addresses(text: str) -> frozenset[tuple[str, str, str, str]]:
    if len(text) > TYPED_CHARACTERS_MAX or text.count("\n") >= TYPED_LINES_MAX:
        return frozenset()
    tokens = (token.strip(_AROUND) for sentence in _said(text) for token in sentence.split())
    return frozenset(found for token in tokens if (found := _canonical(token)) is not None)


def _canonical(address: str) -> tuple[str, str, str, str] | None:
    """Scheme, host, port and path; None for what is no plain address."""
    found = _ADDRESS.fullmatch(address) if address.isascii() else None
    if found is None:
        return None
    scheme = (found[1] or "https").lower()
    path = found[4] or "/"
    return scheme, found[2].lower(), found[3] or dict(_PORTS)[scheme], path if path.startswith("/") else f"/{path}"


def _said(text: str) -> Iterator[str]:
    """The sentences that ask for something: what is quoted, pasted or forbidden left out."""
    own = _QUOTATION.sub(_one_word_stays, "\n".join(_own_lines(text)))
    own = re.split(f"(?<!\\S)[{_QUOTES}]", own, maxsplit=1)[0]  # a quotation without an end reaches to the text's
    for sentence in _SENTENCE.split(own):
        if not _NEGATIONS & frozenset(_WORD.findall(sentence.casefold())):
            yield sentence


def _one_word_stays(quoted: re.Match[str]) -> str:
    inner = quoted[0][1:-1]
    return f" {inner} " if inner and not re.search(r"\s", inner) else " … "


def _own_lines(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif _PASTED_FROM_HERE.match(line):
            return
        elif not fenced and not _QUOTED_LINE.match(line):
            yield line
