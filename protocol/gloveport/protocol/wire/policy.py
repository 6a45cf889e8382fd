"""Messages about the rules of policy.

Purpose: the rules in force as data, and what they would say about a command.
Invariant: what is carried into the daemon can only narrow what one session may do.
Must never: carry a rule that allows.
"""

from typing import Annotated

from pydantic import Field

from gloveport.protocol.wire.base import Digest, Name, SessionMutation, SessionParams, WireModel

ARGV_ITEMS_MAX = 256
ARGV_CHARACTERS_MAX = 32_768
SESSION_RULES_CHARS_MAX = 32_768


class RuleInfo(WireModel):
    """A rule of policy as data. `effects` are the kinds it speaks of, `conditions` what must hold, in words.

    `ceiling` is the longest right that may answer its question; empty where it asks nothing.
    """

    rule_id: str
    source: str
    verdict: str
    justification: str
    effects: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    ceiling: str = ""


class PolicyShowParams(WireModel):
    """Ask for the rules in force: everybody's, or, with `session_id`, those of that session."""

    session_id: Name | None = None


class PolicyShowResult(WireModel):
    """The rules in force and their hash. `own_text`: a session's own rules as it was given them; empty without any."""

    rules_hash: str
    rules: tuple[RuleInfo, ...]
    own_text: str = ""


class SessionRulesParams(SessionMutation):
    """Give a session rules of its own, in the form of `rules.toml`; they may ask or deny, and replace those before.

    An empty text takes them away. `base_digest`: SHA-256 of the `own_text` (UTF-8) that this one was made from; refused
    where the session has another one by now. Null: whatever it has is replaced.
    """

    text: Annotated[str, Field(max_length=SESSION_RULES_CHARS_MAX)]
    base_digest: Digest | None = None


class SessionRulesResult(WireModel):
    """The session's own rules, and the hash of all that are in force in it."""

    rules_hash: str
    rules: tuple[RuleInfo, ...]


class PolicyExplainParams(SessionParams):
    """Ask what would be decided about a command in a session; nothing is run."""

    argv: tuple[Annotated[str, Field(max_length=ARGV_CHARACTERS_MAX)], ...] = Field(
        min_length=1, max_length=ARGV_ITEMS_MAX
    )


class FactorInfo(WireModel):
    """One factor of a risk, with its level and why."""

    name: str
    level: str
    words: str


class PolicyExplainResult(WireModel):
    """The decision as it would be now: verdict, risk with its factors, every finding, and the rules that decide.

    `commands` are the simple commands found in the command line; `doubts` say why more may happen than they say.
    """

    verdict: str
    risk: str
    words: str
    hint: str
    rules_hash: str
    rules: tuple[RuleInfo, ...]
    findings: tuple[str, ...]
    factors: tuple[FactorInfo, ...]
    effects: tuple[str, ...]
    commands: tuple[str, ...]
    doubts: tuple[str, ...]
    grant_id: str | None
