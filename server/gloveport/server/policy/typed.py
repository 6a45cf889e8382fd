"""A web address that the user typed.

Purpose: tell whether a request is nothing but the look at one address that the user asked for in their own words.
Invariant: only a message that is one plain line, begins as a request to look, and names one address as what is to be
looked at endorses; it answers only before anything but the user's own words was read, so that which look is made tells
nobody anything.
Must never: guess what a message means: what does not have exactly this form is asked about.
"""

import re
from collections.abc import Sequence
from typing import Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.findings import Finding
from gloveport.server.policy.labels import Integrity, Label

TYPED_CHARACTERS_MAX: Final = 1_000
"""What is longer was hardly typed; it endorses nothing."""
ANSWERED: Final = "builtin:network.default"
"""The question that a typed address answers; whatever else is asked, also by rules of the user's, stays asked."""
TYPED_WORDS: Final = "You asked for a look at this address yourself, and nothing but it is sent."

_LOOK: Final = re.compile(r"(?:GET|HEAD) (\S+)")
_ADDRESS: Final = re.compile(r"(?:(https?)://|(?=www\.))([a-z0-9.-]+)(?::([0-9]{1,5}))?([/?][!-~]*)?", re.IGNORECASE)
_PORTS: Final = (("http", "80"), ("https", "443"))
_PLAIN: Final = re.compile(r"[ -~]+")
_ENCLOSING: Final = re.compile(r"""["`<>|\\]|'(?!(?:s|re|m|ve|ll|d)\b)|(?<![a-z])'|n't\b""", re.IGNORECASE)
"""Quotes of every kind; an apostrophe within a word is none."""
_NAME: Final = re.compile(r"(?<![a-z0-9])'[a-z0-9_-]{1,40}'(?![a-z0-9])", re.IGNORECASE)
"""One word in quotes is a name, not somebody's text."""
_MANNER: Final = (
    r"(?:(?:the|this|that|web|webpage|page|pages|site|website|article|address|link|url|contents?|text|of|at|on|from) )*"
)
_LOOKS: Final = r"(?:open|fetch|read|look at|see|get|check|visit|view|go to|summari[sz]e)"
_SUMS_UP: Final = r"(?:give me|make|post|send|send me|show me|write|write me) (?:a |the )?(?:brief |short )?summary of"
_ENDS: Final = r"[.!]?|[.!] .*|,? (?:and|then|first|now|for|please)\b.*"
_ASKED: Final = tuple(
    re.compile(rf"(?:please,? )?{asks} {_MANNER}(\S+?)(?:{ends})", re.IGNORECASE)
    for asks, ends in ((_LOOKS, _ENDS), (_SUMS_UP, rf"{_ENDS}|,? (?:to|in|into|as)\b.*"))
)
"""A message whose first sentence asks for a look, or for what can't be without one; the address ends it, or a word
follows that asks for more."""
_ADDRESS_LIKE: Final = re.compile(r"://|\bwww\.", re.IGNORECASE)
_HOLDING_BACK: Final = frozenset(
    {
        "no", "not", "nothing", "none", "never", "nor", "neither", "without", "avoid", "except", "cannot", "aint",
        "arent", "cant", "couldnt", "didnt", "doesnt", "dont", "isnt", "mustnt", "neednt", "shouldnt", "wasnt", "wont",
        "wouldnt", "stop", "skip", "ignore", "ignoring", "block", "blocked", "remove", "removed", "delete", "refuse",
        "forbid", "forbidden", "deny", "instead", "rather", "if", "unless", "until", "till", "only", "before", "after",
        "when", "once", "later", "wait", "ask", "asks", "said", "says", "say", "wrote", "writes", "told", "tells",
        "nein", "nicht", "kein", "keine", "nie", "pas", "jamais", "nunca", "mai", "niet", "geen", "inte", "ikke",
    }
)  # fmt: skip
"""Words that forbid, put off, or tell what somebody else said; one of them anywhere, and nothing is endorsed."""
_WORD: Final = re.compile(r"[a-z]+")


def is_typed_look(said: str, sends: str) -> bool:
    """True if all that leaves (`sends`, in the words of the card) is a look at the address that `said` asks for.

    `said` is the goal's only message, empty when it has answered.
    """
    look = _LOOK.fullmatch(sends)
    address = None if look is None else _canonical(look[1])
    return address is not None and address == _asked_for(said.strip())


def nothing_read(label: Label) -> bool:
    """True if nothing but the user's own public words stands behind a label."""
    return label.integrity is Integrity.USER and label.readers is None


def words_answer(is_typed: bool, label: Label, asks: Sequence[Finding]) -> bool:
    """True if the user's own words answer all that is asked, and nothing else was read yet (`label` is that of all)."""
    if not nothing_read(label):
        return False
    return is_typed and all(
        ask.rule_id == ANSWERED and ask.effect is not None and ask.effect.kind is EffectKind.network for ask in asks
    )


def _asked_for(said: str) -> tuple[str, str, str, str] | None:
    """The one address of a message of the one form that endorses."""
    if len(said) > TYPED_CHARACTERS_MAX or not _PLAIN.fullmatch(said) or _ENCLOSING.search(_NAME.sub("", said)):
        return None
    asked = next(filter(None, (form.fullmatch(said) for form in _ASKED)), None)
    if asked is None or len(_ADDRESS_LIKE.findall(said)) != 1:
        return None
    around = f"{said[: asked.start(1)]} {said[asked.end(1) :]}"
    return None if _HOLDING_BACK.intersection(_WORD.findall(around.casefold())) else _canonical(asked[1])


def _canonical(address: str) -> tuple[str, str, str, str] | None:
    """Scheme, host, port and path; None for what is no plain address."""
    found = _ADDRESS.fullmatch(address) if address.isascii() else None
    if found is None:
        return None
    scheme = (found[1] or "https").lower()
    path = found[4] or "/"
    return scheme, found[2].lower(), found[3] or dict(_PORTS)[scheme], path if path.startswith("/") else f"/{path}"
