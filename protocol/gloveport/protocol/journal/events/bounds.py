"""Facts about what the user lets a session spend and do.

Purpose: the limits of tokens and of money, what a request may cost of it, the mode, rules of the session's own.
Invariant: the newest of each is in force until the next one, also after a restart; money is whole billionths of a US
    dollar, and what it is counted by stands beside the limit.
Must never: be written for anybody but the user.
"""

from typing import ClassVar, Literal

from pydantic import Field

from gloveport.protocol.journal.events.base import EventBody, Record, TurnBody
from gloveport.protocol.money import NANO_USD_MAX

Mode = Literal["agent", "plan"]
"""`agent` works; `plan` looks and says what it would do."""


class RateStep(Record):
    """From more than `above` input tokens of a request on, all its tokens cost `nano_usd` a million."""

    above: int = Field(ge=-1)
    nano_usd: int = Field(ge=0)


class ModelRates(Record):
    """What a model costs: for input, output and what came from the provider's cache (null = as input), and for the
    request itself. Steps rise; the first begins at -1."""

    provider: str
    model: str
    input: tuple[RateStep, ...] = Field(min_length=1)
    output: tuple[RateStep, ...] = Field(min_length=1)
    cached: tuple[RateStep, ...] | None
    request_nano_usd: int = Field(ge=0)


class BudgetSet(EventBody):
    """The most tokens (input and output, as providers count them) and money of one turn and of the session; null = no
    limit. `rates` are those that money is counted by from here on, also for what was used before."""

    version: ClassVar[int] = 2

    turn_tokens: int | None = Field(ge=1)
    session_tokens: int | None = Field(ge=1)
    turn_nano_usd: int | None = Field(ge=1, le=NANO_USD_MAX)
    session_nano_usd: int | None = Field(ge=1, le=NANO_USD_MAX)
    rates: tuple[ModelRates, ...]
    by: str


class SpendReserved(TurnBody):
    """A request keeps within this: so much input is expected at most, so much output asked for at most, and that costs
    `nano_usd`. Without a count of the provider's it is what the request is taken to have cost."""

    request_id: str
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=1)
    nano_usd: int = Field(ge=0)


class ModeChosen(EventBody):
    """From the next call on the session works in this mode."""

    mode: Mode
    by: str


class SessionRulesSet(EventBody):
    """The session's own rules from here on, all of them, as text; `ids` names them. Empty: it has none."""

    text: str
    ids: tuple[str, ...]
    by: str
