"""What a client sees of approval cards: how they ended, and from what their calls came."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.room import Home, Kit, call, new_home

from gloveport.protocol.wire.session import ItemListParams

DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


async def approvals(kit: Kit, session_id: str) -> list[dict[str, Any]]:
    """The fields of every card of a session, as clients see them."""
    page = await kit.call("session/item/list", ItemListParams(session_id=session_id, before=1 << 31))
    return [dict(item.fields) for item in page.items if item.kind == "approval"]


async def test_a_card_says_when_and_where_it_was_asked_and_ended(home: Home) -> None:
    """Seq and time are those of the record, also for a card that nobody answered, and after a restart."""
    write = call("write_file", path="conftest.py", content="x = 1\n")
    home.play({"when": {"turn": 0}, "calls": [write]}, DONE, {"when": {"turn": 1}, "calls": [write]})
    async with home.room() as kit:
        session = await kit.begin()
        await kit.send(session)
        await kit.answer(session, await kit.waiting(session))
        await kit.idle(session)
        await kit.send(session)
        await kit.waiting(session)
        pending = (await approvals(kit, session))[-1]
        assert (pending["state"], "answeredSeq" in pending) == ("pending", False)
        await kit.cancel(session)
        await kit.idle(session)
        events = {kind: [] for kind in ("ApprovalRequested", "ApprovalResolved")}  # type: dict[str, list[tuple[int, int]]]
        for event in await kit.events(session):
            events.get(event["type"], []).append((event["seq"], event["at"]))
        shown = await approvals(kit, session)
        assert [one["state"] for one in shown] == ["allowed", "withdrawn"]
        assert [(one["askedSeq"], one["askedAt"]) for one in shown] == events["ApprovalRequested"]
        assert [(one["answeredSeq"], one["answeredAt"]) for one in shown] == events["ApprovalResolved"]
    async with home.room() as kit:
        assert await approvals(kit, session) == shown
