"""Tokens and cost of a session: by request, turn, model and in all.

Purpose: what the providers counted, what that costs by a list of prices, and what may have been billed beside it.
Invariant: every request stands in exactly one turn and one model; sums are sums of integers; a cost that is not known
    is "unpriced" and is told by count, never as 0.
Must never: know a price of its own, or mix what may have been billed twice into what was. Or count a request that
    was held back and not sent.

Cost is an estimate: providers also bill what the log does not hold (writes into their cache, other tools of theirs).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.held import is_held_back
from gloveport.server.session.views.placed import Placed, all_but
from gloveport.server.session.views.price import PriceBook, Tokens, cost_nano_usd, rates_at

REASON_MODEL: Final = "the list of prices does not know this model"
REASON_TOKENS: Final = "the provider did not count its tokens"
BROKEN_STREAM: Final = "model.broken_stream"
"""The end of a request whose daemon died: whether the provider took it is not known."""

RequestEnd = Literal["open", "answered", "interrupted"]


@dataclass(slots=True)
class _Request:
    """A request as it is being followed."""

    request_id: str
    turn_id: str
    provider: str
    model: str
    at: int
    accepted: bool = False
    may_be_billed: bool | None = None
    end: RequestEnd = "open"
    code: str = ""
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """One request. `cost_nano_usd` is null with the reason in `unpriced`. `billed_unseen`: it gave no count of tokens
    and the provider may have billed it all the same."""

    request_id: str
    turn_id: str
    provider: str
    model: str
    at: int
    end: RequestEnd
    tokens: Tokens
    cost_nano_usd: int | None
    unpriced: str
    billed_unseen: bool


@dataclass(frozen=True, slots=True)
class UsageSum:
    """A sum over requests. `cost_nano_usd` is that of the priced ones alone, null where there is none; `unpriced`
    counts the answered others.

    `unseen` requests gave no count of tokens but may have been billed; `unseen_nano_usd` estimates them by the input of
    the next counted request of their turn (the same words, sent again); null where there was none, or no price.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_nano_usd: int | None = None
    priced: int = 0
    unpriced: int = 0
    unseen: int = 0
    unseen_nano_usd: int | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage of a session. Models are named `provider/model`."""

    total: UsageSum
    by_model: tuple[tuple[str, UsageSum], ...]
    by_turn: tuple[tuple[str, UsageSum], ...]
    requests: tuple[RequestUsage, ...] = field(repr=False, default=())


class UsageProjection:
    """Follows the requests of a session; holds a line for each request and nothing else."""

    by_name: ClassVar[frozenset[str]] = all_but(
        ev.ModelRequestStarted,
        ev.ModelRequestAccepted,
        ev.ModelResponseReceived,
        ev.ModelStreamInterrupted,
        ev.ModelRequestReconciled,
        ev.RetryScheduled,
        ev.UsageRecorded,
    )

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        body = event.body
        if isinstance(body, ev.ModelRequestStarted):
            request = _Request(body.request_id, body.turn_id, body.provider, body.model, event.at)
            self._requests.setdefault(body.request_id, request)
            return
        known = self._requests.get(getattr(body, "request_id", ""))
        if known is None:
            return
        if isinstance(body, ev.ModelRequestAccepted):
            known.accepted = True
        elif isinstance(body, ev.ModelResponseReceived):
            known.end = "answered"
        elif isinstance(body, ev.ModelStreamInterrupted):
            known.end, known.code = "interrupted", body.code
        elif isinstance(body, ev.ModelRequestReconciled):
            known.may_be_billed = body.may_be_billed
        elif isinstance(body, ev.RetryScheduled):
            if is_held_back(body) and known.tokens is None and not known.accepted:
                del self._requests[body.request_id]
        elif isinstance(body, ev.UsageRecorded):
            known.tokens = Tokens(body.input_tokens, body.output_tokens, body.cached_tokens)

    def models(self) -> frozenset[tuple[str, str]]:
        """Provider and model of every request, for whoever fetches prices."""
        return frozenset((request.provider, request.model) for request in self._requests.values())

    def finish(self, prices: PriceBook | None = None) -> UsageReport:
        """Usage so far, priced by `prices` (nothing given: all unpriced)."""
        book = prices or {}
        requests = tuple(_priced(request, book) for request in self._requests.values())
        estimates = _estimates(requests, book)
        total = _sum(requests, estimates)
        return UsageReport(
            total=total,
            by_model=_grouped(requests, estimates, lambda one: f"{one.provider}/{one.model}"),
            by_turn=_grouped(requests, estimates, lambda one: one.turn_id),
            requests=requests,
        )


def _priced(request: _Request, book: PriceBook) -> RequestUsage:
    tokens = request.tokens or Tokens(None, None, None)
    rates = rates_at(book.get((request.provider, request.model), ()), request.at)
    cost = cost_nano_usd(rates, tokens) if rates is not None else None
    counted = tokens.input is not None and tokens.output is not None
    taken = request.accepted or request.code == BROKEN_STREAM
    maybe_taken = taken if request.may_be_billed is None else request.may_be_billed
    return RequestUsage(
        request_id=request.request_id,
        turn_id=request.turn_id,
        provider=request.provider,
        model=request.model,
        at=request.at,
        end=request.end,
        tokens=tokens,
        cost_nano_usd=cost,
        unpriced="" if cost is not None else (REASON_TOKENS if not counted else REASON_MODEL),
        billed_unseen=request.end != "answered" and request.tokens is None and maybe_taken,
    )


def _estimates(requests: tuple[RequestUsage, ...], book: PriceBook) -> dict[str, int]:
    """What each unseen request may have cost for its input, from the counted request of its turn that followed."""
    found: dict[str, int] = {}
    following: RequestUsage | None = None
    for request in reversed(requests):
        if request.tokens.input is not None:
            following = request
        elif request.billed_unseen and following is not None and following.turn_id == request.turn_id:
            rates = rates_at(book.get((request.provider, request.model), ()), request.at)
            cost = cost_nano_usd(rates, Tokens(following.tokens.input, 0, 0)) if rates is not None else None
            if cost is not None:
                found[request.request_id] = cost
    return found


def _grouped(
    requests: tuple[RequestUsage, ...], estimates: dict[str, int], key: Callable[[RequestUsage], str]
) -> tuple[tuple[str, UsageSum], ...]:
    groups: dict[str, list[RequestUsage]] = {}
    for request in requests:
        groups.setdefault(key(request), []).append(request)
    return tuple((name, _sum(group, estimates)) for name, group in groups.items())


def _sum(requests: Iterable[RequestUsage], estimates: dict[str, int]) -> UsageSum:
    every = tuple(requests)
    unseen = [estimates.get(one.request_id) for one in every if one.billed_unseen]
    known = [cost for cost in unseen if cost is not None]
    costs = [one.cost_nano_usd for one in every if one.cost_nano_usd is not None]
    return UsageSum(
        requests=len(every),
        input_tokens=sum(one.tokens.input or 0 for one in every),
        output_tokens=sum(one.tokens.output or 0 for one in every),
        cached_tokens=sum(one.tokens.cached or 0 for one in every),
        cost_nano_usd=sum(costs) if costs else None,
        priced=len(costs),
        unpriced=sum(one.end == "answered" and one.cost_nano_usd is None for one in every),
        unseen=len(unseen),
        unseen_nano_usd=sum(known) if known else None,
    )
