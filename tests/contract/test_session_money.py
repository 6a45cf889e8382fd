"""Limits of money as a client sets them: priced, kept over restarts, held by the real machine, refused in words."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, call, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import ModelChooseParams
from gloveport.protocol.wire.session import MoneyLimits, SessionBudgetParams, SessionDetail
from gloveport.protocol.wire.views import UsageShowParams
from gloveport.server.engine.prompt import PLANNING, STANDING
from gloveport.server.models.contract import ModelRequest
from gloveport.server.session.spending import PROMPT_TOKENS, REPLY_TOKENS_MAX, REPLY_TOKENS_MIN
from gloveport.server.settings import ModelChoice, ModelPrice
from gloveport.server.tools.registry import builtin_toolbox

USD = 10**9
READ = call("read_file", path="a.txt")
USAGE = {"input_tokens": 1_000, "output_tokens": 100}
COST = 1_000 * 2_000 + 100 * 8_000
"""What such an answer costs at two dollars a million in and eight out."""
LIMIT = 55_000_000
"""Room for the first request, and not for one with the file in it."""
LONG = "a line of some length\n" * 2_000


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with one file, and with a model that has a price before the one that has none."""
    with new_home() as made:
        made.write(a__txt=LONG)
        price = ModelPrice(2 * USD, 8 * USD)
        made.models = (ModelChoice("scripted", "priced", script=made.script, price=price),)
        made.play(
            {"when": {"user_contains": "look", "turn": 0}, "calls": [READ], "usage": USAGE},
            {"text": "Done.", "usage": USAGE},
        )
        yield made


async def show(kit: Kit, session_id: str) -> SessionDetail:
    """What a client is shown."""
    detail: SessionDetail = await kit.call("session/show", SessionParams(session_id=session_id))
    return detail


def wanted(session_id: str, name: str, money: MoneyLimits | None, tokens: int | None = None) -> SessionBudgetParams:
    """Limits of a session; none of tokens for a turn."""
    return SessionBudgetParams(client_request_id=name, session_id=session_id, session_tokens=tokens, money=money)


async def choose(kit: Kit, session_id: str, model: str) -> None:
    """Use another model."""
    params = ModelChooseParams(client_request_id=model, session_id=session_id, provider="scripted", model=model)
    await kit.call("model/choose", params)
    info = (await show(kit, session_id)).info
    assert (info.provider, info.model) == ("scripted", model)


async def test_a_limit_of_money_outlives_the_daemon_ends_the_turn_and_can_be_raised(home: Home) -> None:
    """Set, killed, held: the file that was read could cost more than is left, so the second request is not made."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.call("session/budget", wanted(session_id, "one", MoneyLimits(session_nano_usd=LIMIT)))
    async with home.room() as kit:
        detail = await show(kit, session_id)
        assert (detail.session_nano_usd_max, detail.turn_nano_usd_max, detail.session_nano_usd) == (LIMIT, None, 0)
        assert detail.next_nano_usd is not None
        await kit.send(session_id, "look")
        assert (await kit.idle(session_id)).count("ModelRequestStarted") == 1
        (failed,) = await kit.bodies(session_id, "TurnFailed")
        assert failed["code"] == ErrorCode.BUDGET
        assert "this session has spent $0.0028 of $0.0550; the next request may cost $0.0" in failed["message"]
        detail = await show(kit, session_id)
        assert (detail.session_nano_usd, detail.unseen_nano_usd, detail.turn_nano_usd) == (COST, 0, COST)
        assert (detail.limit_reached, detail.turn_tokens) == (True, 1_100)
        await kit.call("session/budget", wanted(session_id, "more", MoneyLimits(session_nano_usd=USD)))
        await kit.send(session_id, "go on")
        assert "TurnCompleted" in await kit.idle(session_id)
        usage = await kit.call("usage/show", UsageShowParams(session_id=session_id))
        assert usage.total.cost_nano_usd == (await show(kit, session_id)).session_nano_usd == 2 * COST


async def test_what_is_asked_of_a_model_is_what_was_reserved(home: Home) -> None:
    """The request carries the longest answer that the limit has room for."""
    async with home.room() as kit:
        session_id = await kit.begin()
        room = (PROMPT_TOKENS + 1_000) * 2_000 + 3_000 * 8_000
        await kit.call("session/budget", wanted(session_id, "one", MoneyLimits(session_nano_usd=room)))
        asked: list[ModelRequest] = []
        provider = kit.sessions.room.providers.provider("scripted", "priced")
        stream = provider.stream
        provider.stream = lambda request: (asked.append(request), stream(request))[1]  # type: ignore[method-assign]  # - the real one, listened to
        await kit.send(session_id, "say hello")
        await kit.idle(session_id)
        (reserved,) = await kit.bodies(session_id, "SpendReserved")
        (request,) = asked
        assert REPLY_TOKENS_MIN < reserved["output_tokens"] == request.max_output_tokens < REPLY_TOKENS_MAX
        assert reserved["nano_usd"] <= room


async def test_a_limit_is_refused_where_a_model_has_no_price(home: Home) -> None:
    """The one in use, or one that was used before: nothing is set; with tokens it can be bound all the same."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await choose(kit, session_id, "test")
        limits = wanted(session_id, "money", MoneyLimits(turn_nano_usd=USD))
        refusal = await kit.refused("session/budget", limits)
        assert refusal.code is ErrorCode.UNPRICED
        assert refusal.message == "no price is known for scripted/test"
        await kit.call("session/budget", wanted(session_id, "tokens", None, 9_000))
        await kit.send(session_id, "hello")
        await kit.idle(session_id)
        await choose(kit, session_id, "priced")
        again = wanted(session_id, "again", MoneyLimits(turn_nano_usd=USD))
        assert (await kit.refused("session/budget", again)).message == "no price is known for scripted/test"
        assert (await show(kit, session_id)).session_tokens_max == 9_000


async def test_tokens_are_set_without_a_word_of_money_and_money_stays(home: Home) -> None:
    """A client that knows no limits of money takes none back; one that does can."""
    async with home.room() as kit:
        session_id = await kit.begin()
        limits = MoneyLimits(turn_nano_usd=USD, session_nano_usd=2 * USD)
        await kit.call("session/budget", wanted(session_id, "money", limits))
        await kit.call("session/budget", wanted(session_id, "tokens", None, 9_000))
        detail = await show(kit, session_id)
        assert (detail.turn_nano_usd_max, detail.session_nano_usd_max, detail.session_tokens_max) == (
            USD,
            2 * USD,
            9_000,
        )
        await kit.call("session/budget", wanted(session_id, "none", MoneyLimits()))
        detail = await show(kit, session_id)
        assert (detail.turn_nano_usd_max, detail.session_nano_usd_max, detail.session_tokens_max) == (None, None, None)


async def test_a_model_chosen_later_brings_its_price_or_is_not_asked(home: Home) -> None:
    """Set up after the limit was set: with a price it works at once; without one the message is refused in words."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.call("session/budget", wanted(session_id, "money", MoneyLimits(session_nano_usd=USD)))
    dear = ModelChoice("scripted", "dear", script=home.script, price=ModelPrice(3 * USD, 9 * USD))
    home.models = (*home.models, dear)
    async with home.room() as kit:
        await kit.begin()
        await kit.sessions.open(session_id)
        await choose(kit, session_id, "dear")
        await kit.send(session_id, "hello")
        assert "TurnCompleted" in await kit.idle(session_id)
        assert (await show(kit, session_id)).session_nano_usd == 1_000 * 3_000 + 100 * 9_000
        await choose(kit, session_id, "test")
        events = len(await kit.events(session_id))
        with pytest.raises(Exception, match="no price is known for scripted/test"):
            await kit.send(session_id, "hello again")
        assert len(await kit.events(session_id)) == events


def test_the_standing_part_of_a_request_is_reckoned_high_enough() -> None:
    """No model makes more than a token of two bytes of our own words and of JSON; the longest answer is one number."""
    tools = builtin_toolbox().specs()
    words = sum(len(f"{tool.name}{tool.description}{dict(tool.parameters)!r}") for tool in tools)
    assert (words + len(STANDING) + len(PLANNING)) / 2 <= PROMPT_TOKENS
    assert ModelRequest("m", ()).max_output_tokens == REPLY_TOKENS_MAX
