"""Clients that come back at any place, hold a part of the view, or do not read: over a real socket."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
from tests.kit.memory_backend import MemoryBackend, run_daemon, upsert
from tests.kit.raw_client import RawClient, raw_client
from tests.kit.simulation.recordings import FOLDER, body_of

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, cursor_at, encode_cursor, event_digest
from gloveport.protocol.wire.reducer import PAGE_ITEMS, View
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.follow import OLDER_ITEMS, Follow
from gloveport.server.session.views.ops import project_ops
from gloveport.server.transports.tail import ENTRY_BYTES_OVERHEAD, TAIL_BYTES_MAX

WINDOW = 1 << 16


def cursors_of(backend: MemoryBackend) -> list[str]:
    """The cursor after each event of the session, and the one before the first."""
    events = backend.journal.streams["session/s"]
    return [encode_cursor(cursor_at(1, seq, digest)) for seq, digest in enumerate(
        [GENESIS_DIGEST, *(event.digest for event in events)])]  # fmt: skip


def recorded(name: str) -> MemoryBackend:
    """A recorded session, event by event as it happened."""
    backend = MemoryBackend()
    for event in json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))["events"]:
        backend.tell("s", *project_ops(body_of(event), event["type"], 0))
    return backend


def views_of(backend: MemoryBackend) -> list[View]:
    """The view after each event, by one that was there all the time."""
    views = [View()]
    for event in backend.journal.streams["session/s"]:
        view = View()
        view.load(json.loads(json.dumps(views[-1].items())), views[-1].watermark)
        view.apply(event.seq, json.loads(event.payload))
        views.append(view)
    return views


async def until_in_sync(follow: Follow) -> list[int]:
    """Follow until the digests agree; the seqs of all events that came."""
    seqs: list[int] = []
    async for update in follow:
        assert not update.began_anew
        seqs += [event.seq for event in update.events]
        if update.in_sync:
            return seqs
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("name", ["approved", "lost", "stopped", "seed-21"])
async def test_d06_back_at_every_seq(name: str) -> None:
    """Gone at every place of a recorded session: back with its cursor, it gets what it missed once, and no more."""
    backend = recorded(name)
    cursors, views = cursors_of(backend), views_of(backend)
    whole, last = backend.views["session/s"], len(cursors) - 1
    async with run_daemon(backend) as daemon, connect(daemon.socket, client_name="back") as client:
        for seq, cursor in enumerate(cursors):
            async with client.follow("s", after=cursor, view=views[seq], window_bytes=WINDOW) as follow:
                assert await until_in_sync(follow) == list(range(seq + 1, last + 1))
                assert follow.view.items() == whole.items()
                assert follow.view.digest() == whole.digest()


async def test_d10_order_is_that_of_the_log_whatever_the_clock_said() -> None:
    """The clock is set back by an hour in mid-session, then on by ten minutes: nothing of it changes what is shown."""
    backend, stream = recorded("approved"), "session/s"
    plain, events, digest = backend.views[stream].digest(), backend.journal.streams[stream], GENESIS_DIGEST
    for index, event in enumerate(events):
        at = 10**15 + index * 1_000 + (-3_600_000_000 if index % 3 == 1 else 600_000_000 if index % 3 == 2 else 0)
        moved = event._replace(at=at)
        digest = event_digest(digest, moved)
        events[index] = moved._replace(digest=digest)
    cursors, views = cursors_of(backend), views_of(backend)
    async with run_daemon(backend) as daemon, connect(daemon.socket, client_name="clock") as client:
        for seq in range(0, len(cursors), 5):
            async with client.follow("s", after=cursors[seq], view=views[seq]) as follow:
                assert await until_in_sync(follow) == list(range(seq + 1, len(cursors)))
                assert follow.view.digest() == plain


def long_session(items: int = 900, events: int = 1_500) -> MemoryBackend:
    """Items come, old ones change again and again, some grow."""
    backend, chance, made = MemoryBackend(snapshot_items=300), random.Random(5), 0
    grown: dict[int, int] = {}
    for number in range(events):
        if made < items and chance.random() < items / events:
            backend.tell("s", upsert(f"item/{made}", "note", text="", n=number), upsert("item/0", "note", last=made))
            made += 1
        elif chance.random() < 0.5 and made:
            old = chance.randrange(made)
            at = grown.get(old, 0)
            op = {"op": "append", "item": f"item/{old}", "field": "text", "offset": at, "text": "😀x"}
            grown[old] = at + 3
            backend.tell("s", op)
        elif made:
            backend.tell("s", upsert(f"item/{chance.randrange(made)}", "note", n=number))
    return backend


@pytest.fixture
async def long() -> AsyncIterator[tuple[MemoryBackend, Client]]:
    """A long session and a client."""
    backend = long_session()
    async with run_daemon(backend) as daemon, connect(daemon.socket, client_name="part") as client:
        yield backend, client


async def test_the_newest_items_alone_and_older_ones_as_wanted(long: tuple[MemoryBackend, Client]) -> None:
    """What happens to items that are not held is left out; once they are, nothing is missing."""
    backend, client = long
    whole = backend.views["session/s"]
    async with client.follow("s", newest_only=True) as follow:
        await follow.__anext__()
        assert 0 < follow.view.first < whole.end
        assert follow.view.first % PAGE_ITEMS == 0
        rounds = 0
        while True:
            assert await until_in_sync(follow) is not None
            assert follow.view.items() == whole.items()[follow.view.first :]
            for number in (0, 5, 200, 400, whole.end - 1):
                backend.tell("s", upsert(f"item/{number}", "note", round=rounds))
            backend.tell("s", upsert(f"new/{rounds}", "note"))
            if not await follow.older():
                break
            rounds += 1
        assert rounds == -(-(whole.end - 300) // OLDER_ITEMS)
        await until_in_sync(follow)
        assert follow.view.items() == whole.items()
        assert not await follow.older()


async def test_changes_while_older_items_are_on_their_way_are_not_lost(long: tuple[MemoryBackend, Client]) -> None:
    """Changes before, between and after the two requests that take older items in."""
    backend, client = long
    whole = backend.views["session/s"]
    async with client.follow("s", newest_only=True) as follow:
        await follow.__anext__()
        await until_in_sync(follow)
        ask = follow._link.ask

        async def busy(method: str, *rest: Any) -> Any:
            for number in (0, 100, 200, 300, whole.end - 1):
                backend.tell("s", upsert(f"item/{number}", "note", before=method))
            found = await ask(method, *rest)
            for number in (0, 100, 200, 300, whole.end - 1):
                backend.tell("s", upsert(f"item/{number}", "note", after=method))
            return found

        follow._link.ask = busy  # type: ignore[method-assign]  # something happens around every request
        while await follow.older():
            while follow.view.watermark < whole.watermark:
                await until_in_sync(follow)
            assert follow.view.items() == whole.items()[follow.view.first :]
            assert follow.view.digest() == whole.digest(follow.view.first)
        follow._link.ask = ask  # type: ignore[method-assign] - as it was


async def test_d06_back_with_a_part_of_the_view(long: tuple[MemoryBackend, Client]) -> None:
    """A client that holds the newest items comes back at any place with its cursor and those items."""
    backend, client = long
    cursors, whole = cursors_of(backend), backend.views["session/s"]
    last = len(cursors) - 1
    for seq in range(0, last + 1, 61):
        view = View()
        for event in backend.journal.streams["session/s"][:seq]:
            view.apply(event.seq, json.loads(event.payload))
        view.forget_before(view.end - view.end % PAGE_ITEMS)
        first = view.first
        async with client.follow("s", after=cursors[seq], view=view) as follow:
            assert await until_in_sync(follow) == list(range(seq + 1, last + 1))
            assert follow.view.first == first
            assert follow.view.items() == whole.items()[first:]


@pytest.mark.parametrize(("method", "more"), [("session/subscribe", {"sessionId": "s"}), ("session/widen", {})])
async def test_a_part_begins_at_a_page(long: tuple[MemoryBackend, Client], method: str, more: dict[str, Any]) -> None:
    """Anything else has no digest to compare, and is refused."""
    _, client = long
    async with client.follow("s") as follow:
        await until_in_sync_anew(follow)
        params = {"itemsFrom": 5, "subscriptionId": follow.subscription_id} | more
        if method == "session/subscribe":
            del params["subscriptionId"]
        with pytest.raises(Exception, match="itemsFrom: not a multiple of 128"):
            await follow._link.ask(method, params)


async def until_in_sync_anew(follow: Follow) -> None:
    """Follow from a snapshot until the digests agree."""
    async for update in follow:
        if update.in_sync:
            return


async def test_d06_a_cursor_of_another_past_begins_anew_with_the_same_view() -> None:
    """Too old, pruned or of another epoch: the answer says so, and the snapshot gives what a replay would."""
    backend = recorded("seed-21")
    cursors, views = cursors_of(backend), views_of(backend)
    whole = backend.views["session/s"]
    foreign = encode_cursor(cursor_at(9, 3, backend.journal.streams["session/s"][2].digest))
    async with run_daemon(backend) as daemon, connect(daemon.socket, client_name="old") as client:
        for after in (foreign, cursors[-1][:-4] + "AAAA", "nonsense"):
            async with client.follow("s", after=after, view=views[3]) as follow:
                first = await follow.__anext__()
                assert first.began_anew
                assert await until_in_sync(follow) == []
                assert follow.view.digest() == whole.digest()


async def test_one_that_reads_nothing_costs_a_bounded_part_and_catches_up() -> None:
    """Megabytes pass it by: what waits for it is a window and an outbox, others go on, and it gets everything."""
    backend = MemoryBackend()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as deaf, raw_client(daemon.socket) as other:
        begun = await subscribe(deaf)
        name = (await subscribe(other))["subscriptionId"]
        view = View()
        for turn in range(40):
            for number in range(100):
                backend.tell("s", upsert(f"item/{turn}/{number}", "note", text="x" * 5_000))
            await follow_to(other, name, view, len(backend.journal.streams["session/s"]))
        assert view.digest() == backend.views["session/s"].digest()
        sent = sum(len(event.payload) for event in backend.journal.streams["session/s"])
        assert sent > 18 * TAIL_BYTES_MAX
        (tail,) = backend.hub._tails.values()
        assert tail._bytes <= TAIL_BYTES_MAX
        assert len(tail._entries) * ENTRY_BYTES_OVERHEAD <= TAIL_BYTES_MAX
        followers = [waker.__self__ for waker in tail.wakers if isinstance(waker, MethodType)]
        assert len(followers) == 2
        for follower in followers:  # all that was ever handed to its connection and is not acknowledged
            assert 0 <= follower._flying_bytes <= WINDOW
        late = View()
        await follow_to(deaf, begun["subscriptionId"], late, view.watermark)
        assert late.digest() == view.digest()


async def subscribe(client: RawClient) -> dict[str, Any]:
    """Follow from the beginning."""
    after = encode_cursor(cursor_at(1, 0, GENESIS_DIGEST))
    answer = await client.ask("session/subscribe", {"sessionId": "s", "after": after, "windowBytes": WINDOW})
    result: dict[str, Any] = answer["result"]
    return result


async def follow_to(client: RawClient, name: str, view: View, seq: int) -> None:
    """Apply and acknowledge until `seq` is in the view: every event once, in order."""
    while view.watermark < seq:
        batch = (await client.recv())["params"]
        for event in batch["events"]:
            assert event["seq"] == view.watermark + 1
            view.apply(event["seq"], event["ops"])
        params = {"subscriptionId": name, "seq": view.watermark}
        await client.send({"jsonrpc": "2.0", "method": "session/ack", "params": params})


def test_the_recordings_are_there() -> None:
    """A control: the histories that are followed have enough events."""
    assert len(recorded("seed-21").journal.streams["session/s"]) > 60
    assert Path(FOLDER).is_dir()
