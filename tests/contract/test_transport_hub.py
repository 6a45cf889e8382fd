"""Following: windows, catch-up, durability, resync, and clients that do not wait for each other."""

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest
from tests.kit.memory_backend import MemoryBackend, read_ops, run_daemon
from tests.kit.raw_client import RawClient, raw_client

from gloveport.protocol.errors import ERRORS, ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import (
    GENESIS_DIGEST,
    StoredEvent,
    cursor_at,
    decode_cursor,
    encode_cursor,
)
from gloveport.protocol.wire.reducer import View
from gloveport.server.transports.source import Head, Projections, dump_each
from gloveport.server.transports.tail import Entry, Tail


def backend_with(texts: int = 0) -> MemoryBackend:
    """A backend with the session `s` and so many pieces of text in it."""
    backend = MemoryBackend()
    backend.open_session("s")
    backend.tell_text("s", *(f"{n}é😀 " for n in range(texts)))
    return backend


async def subscribe(client: RawClient, after: str | None = None, **more: object) -> dict[str, Any]:
    """The result of session/subscribe."""
    answer = await client.ask("session/subscribe", {"sessionId": "s", "after": after, **more})
    result: dict[str, Any] = answer["result"]
    return result


async def batch_of(client: RawClient) -> dict[str, Any]:
    """The params of the next session/events."""
    message = await client.recv()
    assert message["method"] == "session/events", message
    params: dict[str, Any] = message["params"]
    return params


async def ack(client: RawClient, name: str, seq: int) -> None:
    """Open the window."""
    params = {"subscriptionId": name, "seq": seq}
    await client.send({"jsonrpc": "2.0", "method": "session/ack", "params": params})


async def follow_to(client: RawClient, name: str, view: View, seq: int) -> str:
    """Apply and acknowledge until `seq` is in the view; the last cursor."""
    last = ""
    while view.watermark < seq:
        batch = await batch_of(client)
        assert batch["subscriptionId"] == name
        for event in batch["events"]:
            assert event["seq"] == view.watermark + 1
            view.apply(event["seq"], event["ops"])
        last = batch["last"]
        await ack(client, name, view.watermark)
    return last


GENESIS = encode_cursor(cursor_at(1, 0, GENESIS_DIGEST))


async def test_from_the_beginning_by_replay() -> None:
    """Every event once, in order; at rest the digest is the daemon's own."""
    backend = backend_with(300)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS, windowBytes=4096)
        assert (begun["mode"], begun["cursor"], begun["snapshot"]) == ("replay", GENESIS, None)
        view = View()
        await follow_to(client, begun["subscriptionId"], view, 302)
        assert view.digest() == backend.views["session/s"].digest()
        backend.tell_text("s", "more")
        batch = await batch_of(client)
        view.apply(batch["events"][0]["seq"], batch["events"][0]["ops"])
        assert batch["caughtUp"]
        assert batch["viewDigest"] == view.digest()
        assert batch["durable"] == batch["last"]


async def test_from_a_snapshot_and_its_tail() -> None:
    """Without a cursor the view comes as it is, and the digest follows although nothing happened."""
    backend = backend_with(3)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client)
        view = View()
        view.load(begun["snapshot"]["items"], 5)
        batch = await batch_of(client)
        assert batch["events"] == []
        assert batch["after"] == batch["last"] == begun["cursor"]
        assert batch["viewDigest"] == view.digest()


@pytest.mark.parametrize(
    "after",
    ["", "nonsense", "x" * 500, encode_cursor(cursor_at(1, 99, "a" * 64)), encode_cursor(cursor_at(1, 2, "b" * 64))],
)
async def test_a_cursor_of_no_past_of_ours_gives_a_snapshot(after: str) -> None:
    """Unknown, foreign or beyond the end: never a silent hole."""
    async with run_daemon(backend_with(3)) as daemon, raw_client(daemon.socket) as client:
        assert (await subscribe(client, after))["mode"] == "snapshot"


async def test_a_cursor_of_another_epoch_gives_a_snapshot() -> None:
    """The same seq in another epoch is another past."""
    backend = backend_with(3)
    event = backend.journal.streams["session/s"][-1]
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        assert (await subscribe(client, encode_cursor(cursor_at(1, event.seq, event.digest))))["mode"] == "replay"
        assert (await subscribe(client, encode_cursor(cursor_at(2, event.seq, event.digest))))["mode"] == "snapshot"


async def test_reconnect_from_the_last_cursor_misses_and_doubles_nothing() -> None:
    """D06: the link drops in the middle; replay from the last id gives the view of a client that never left."""
    backend = backend_with(100)
    view = View()
    async with run_daemon(backend) as daemon:
        async with raw_client(daemon.socket) as client:
            begun = await subscribe(client, GENESIS, windowBytes=4096)
            last = await follow_to(client, begun["subscriptionId"], view, 40)
        backend.tell_text("s", *("gap" for _ in range(50)))
        async with raw_client(daemon.socket) as client:
            begun = await subscribe(client, last)
            assert begun["mode"] == "replay"
            await follow_to(client, begun["subscriptionId"], view, 152)
    assert view.digest() == backend.views["session/s"].digest()
    assert backend.hub.followed_streams == 0


async def test_window_bounds_what_is_not_acknowledged() -> None:
    """At most the window is on its way; an ack opens it, a repeated or foolish one does no harm."""
    backend = backend_with(400)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS, windowBytes=8192)
        name = begun["subscriptionId"]
        sizes, seq = [], 0
        while sum(sizes) < 3500:
            batch = await batch_of(client)
            sizes.append(sum(len(str(event)) for event in batch["events"]))
            assert sizes[-1] < 8192
            seq = batch["events"][-1]["seq"]
        await client.send({"jsonrpc": "2.0", "id": "idle", "method": "session/list"})
        later = await client.recv()
        while later.get("id") != "idle":
            seq = later["params"]["events"][-1]["seq"]
            later = await client.recv()
        assert seq < 402, "everything was sent without one ack"
        for foolish in (0, seq, seq, 10**15):
            await ack(client, name, foolish)
        assert (await batch_of(client))["events"][0]["seq"] == seq + 1


async def test_an_event_larger_than_the_window_goes_alone() -> None:
    """Nobody is stuck behind one big event."""
    backend = backend_with(1)
    backend.tell_text("s", "x" * 50_000, "y")
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS, windowBytes=4096)
        view = View()
        await follow_to(client, begun["subscriptionId"], view, 5)
        assert view.digest() == backend.views["session/s"].digest()


async def test_a_slow_client_delays_nobody() -> None:
    """One never acknowledges; the other gets everything, and the slow one later too, from the journal."""
    backend = backend_with()
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as slow, raw_client(daemon.socket) as fast:
        slow_name = (await subscribe(slow, GENESIS, windowBytes=4096))["subscriptionId"]
        fast_name = (await subscribe(fast, GENESIS, windowBytes=4096))["subscriptionId"]
        fast_view, slow_view = View(), View()
        for _ in range(20):
            backend.tell_text("s", *("x" * 2000 for _ in range(50)))
            await asyncio.sleep(0)
        await follow_to(fast, fast_name, fast_view, 1002)
        assert fast_view.digest() == backend.views["session/s"].digest()
        await follow_to(slow, slow_name, slow_view, 1002)
        assert slow_view.digest() == fast_view.digest()


async def test_two_clients_of_which_one_joins_late_end_alike() -> None:
    """Replay from the start and snapshot in the middle end in one digest, the daemon's."""
    backend = backend_with(10)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as one, raw_client(daemon.socket) as two:
        views = (View(), View())
        first = await subscribe(one, GENESIS)
        await follow_to(one, first["subscriptionId"], views[0], 12)
        second = await subscribe(two)
        views[1].load(second["snapshot"]["items"], 12)
        backend.tell_text("s", *(f"{n}😀" for n in range(200)))
        await follow_to(one, first["subscriptionId"], views[0], 212)
        await follow_to(two, second["subscriptionId"], views[1], 212)
    assert views[0].digest() == views[1].digest() == backend.views["session/s"].digest()


async def test_durable_lags_and_is_told_when_it_grows() -> None:
    """What a power loss takes back is not called durable; its becoming durable is told without a new event."""
    backend = backend_with(2)
    backend.journal.durable["session/s"] = 3
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS)
        batch = await batch_of(client)
        assert len(batch["events"]) == 4
        third = backend.journal.streams["session/s"][2]
        assert batch["durable"] == encode_cursor(cursor_at(1, 3, third.digest))
        backend.hub.publish("session/s", [], 4)
        told = await batch_of(client)
        assert (told["events"], told["durable"]) == ([], batch["last"])
        assert told["subscriptionId"] == begun["subscriptionId"]


async def test_no_digest_while_a_turn_runs() -> None:
    """`viewDigest` is said at rest only."""
    backend = backend_with(2)
    backend.busy.add("session/s")
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        await subscribe(client, GENESIS)
        batch = await batch_of(client)
        assert batch["caughtUp"]
        assert "viewDigest" not in batch
        backend.busy.clear()
        backend.tell_text("s", "rest")
        assert "viewDigest" in await batch_of(client)


async def test_a_gap_in_what_was_published_is_read_from_the_journal() -> None:
    """The hub trusts the journal, not the order in which it is told of it."""
    backend = backend_with(2)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS)
        view = View()
        await follow_to(client, begun["subscriptionId"], view, 4)
        op = {"op": "append", "item": "answer/1", "field": "text", "offset": 0, "text": ""}
        unseen = backend.journal.append("session/s", [op])
        seen = backend.journal.append("session/s", [op])
        backend.hub.publish("session/s", [seen], seen.seq)
        backend.hub.publish("session/s", [unseen, seen], seen.seq)
        await follow_to(client, begun["subscriptionId"], view, seen.seq)


async def test_the_digest_comes_as_soon_as_there_is_one() -> None:
    """The last event was read from the journal before the session stood at it: the proof follows, once."""
    backend = backend_with(3)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        backend.busy.add("session/s")  # it is on disk, and the session does not stand there yet
        begun = await subscribe(client, GENESIS)
        assert begun["seq"] == 0
        batch = await batch_of(client)
        assert batch["caughtUp"]
        assert "viewDigest" not in batch
        backend.busy.clear()
        backend.hub.publish("session/s", [], 0)
        batch = await batch_of(client)
        assert batch["events"] == []
        assert batch["viewDigest"] == backend.views["session/s"].digest()
        backend.hub.publish("session/s", [], 0)
        backend.tell_text("s", "more")
        assert len((await batch_of(client))["events"]) == 1  # nothing was said twice


def test_a_tail_is_contiguous_and_never_goes_back() -> None:
    """Told twice, told late, told with a gap: the head only grows, and what it holds follows without one."""
    backend = backend_with(8)
    projections = Projections(
        read_ops, partial(dump_each, read_ops), backend.project, backend.digest, backend.old_items
    )
    entries = [Entry(event, projections) for event in backend.journal.streams["session/s"]]
    tail = Tail()
    tail.reach(Head(1, 5, "", 3))
    tail.extend(entries[:5], 4)
    assert (tail.head_seq, tail.durable_seq, tail.after(4, 9)) == (5, 4, None)
    tail.extend(entries[4:7], 2)
    assert (tail.head_seq, tail.durable_seq) == (7, 4)
    assert tail.after(5, 9) == entries[5:7]
    assert tail.after(5, 1) == entries[5:6]
    tail.extend(entries[8:], 9)
    assert (tail.head_seq, tail.after(7, 9), tail.after(8, 9)) == (10, None, entries[8:])
    tail.reach(Head(1, 4, "", 1))
    assert (tail.head_seq, tail.durable_seq) == (10, 9)
    cut = entries[6].event._replace(epoch=2)
    tail.extend([Entry(cut, projections)], 7)
    assert (tail.epoch, tail.head_seq, tail.durable_seq) == (2, 7, 7)
    tail.extend(entries[7:], 10)
    assert (tail.head_seq, tail.after(5, 9), tail.after(6, 9)) == (7, None, [tail.after(6, 9)[0]])
    tail.reach(Head(3, 2, "", 2))
    assert (tail.epoch, tail.head_seq, tail.durable_seq) == (3, 2, 2)


async def test_what_is_published_while_a_client_subscribes_is_not_lost() -> None:
    """The journal's head may be read before an append and looked at after it; no later event brings it to light."""
    for turns in range(8):
        for after_seq in (None, 0, 4):
            backend, sent = backend_with(2), asyncio.Queue[bytes]()
            digests = [GENESIS_DIGEST, *(event.digest for event in backend.journal.streams["session/s"])]
            after = None if after_seq is None else encode_cursor(cursor_at(1, after_seq, digests[after_seq]))
            subscribing = asyncio.create_task(backend.hub.subscribe("session/s", after, 1 << 20))
            for _ in range(turns):
                await asyncio.sleep(0)
            backend.tell_text("s", "meanwhile")
            subscription, result = await subscribing
            running = asyncio.create_task(subscription.run(sent.put))
            view = View()
            if after_seq == 4:
                view.load((await backend.project("session/s")).snapshot.model_dump()["items"], 4)
            if result.snapshot is not None:
                view.load([item.model_dump() for item in result.snapshot.items], decode_cursor(result.cursor).seq)
            async with asyncio.timeout(10):
                while view.watermark < 5:
                    _, _, body = (await sent.get()).partition(b"\r\n\r\n")
                    for event in orjson.loads(body)["params"]["events"]:
                        view.apply(event["seq"], event["ops"])
            assert view.digest() == backend.views["session/s"].digest()
            backend.hub.unsubscribe(subscription)
            await running


async def test_unknown_session_and_limits_are_typed() -> None:
    """A bound on subscriptions; a name that is not this connection's; an end by unsubscribe."""
    backend = backend_with(1)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client, raw_client(daemon.socket) as other:
        answer = await client.ask("session/subscribe", {"sessionId": "nobody"})
        assert answer["error"]["code"] == ERRORS[ErrorCode.SESSION_UNKNOWN].rpc
        assert backend.hub.followed_streams == 0
        name = (await subscribe(client))["subscriptionId"]
        answer = await other.ask("session/unsubscribe", {"subscriptionId": name})
        assert answer["error"]["code"] == ERRORS[ErrorCode.INVALID_PARAMS].rpc
        assert "result" in await client.ask("session/unsubscribe", {"subscriptionId": name})
        assert backend.hub.followed_streams == 0
        for _ in range(64):
            await subscribe(client)
        answer = await client.ask("session/subscribe", {"sessionId": "s"})
        assert answer["error"]["code"] == ERRORS[ErrorCode.LIMIT].rpc
    assert backend.hub.followed_streams == 0


async def test_a_journal_that_fails_ends_the_connection_not_the_daemon(caplog: pytest.LogCaptureFixture) -> None:
    """The client reconnects from its cursor; others go on."""

    class Failing(MemoryBackend):
        async def project(self, stream: str) -> Any:
            raise OSError("disk gone")

    backend = Failing()
    backend.open_session("s")
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        answer = await client.ask("session/subscribe", {"sessionId": "s"})
        assert answer["error"]["code"] == -32603
        assert backend.hub.followed_streams == 0
        assert "result" in await client.ask("session/list")


async def test_the_same_event_twice_changes_nothing() -> None:
    """Snapshot plus overlapping tail gives the same view."""
    backend = backend_with(20)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as client:
        begun = await subscribe(client, GENESIS)
        events: list[dict[str, Any]] = []
        while len(events) < 22:
            events += (await batch_of(client))["events"]
            await ack(client, begun["subscriptionId"], events[-1]["seq"])
    view = View()
    for event in [*events, *events[5:]]:
        view.apply(event["seq"], event["ops"])
    fresh = View()
    fresh.load(view.items(), 10)
    for event in events:
        fresh.apply(event["seq"], event["ops"])
    assert view.digest() == fresh.digest() == backend.views["session/s"].digest()


async def test_the_end_of_a_stream_is_the_last_word_at_its_head_and_behind_it() -> None:
    """Once, with the reason, at the place that was reached; also to who came while it ended."""
    backend = backend_with(400)
    async with run_daemon(backend) as daemon, raw_client(daemon.socket) as near, raw_client(daemon.socket) as far:
        begun = await subscribe(near)
        await batch_of(near)
        await subscribe(far, GENESIS, windowBytes=4096)
        joining = asyncio.create_task(backend.hub.subscribe("session/s", GENESIS, 1 << 20))
        await asyncio.sleep(0)
        backend.hub.end("session/s", "it was deleted")
        del backend.journal.streams["session/s"]
        told = await batch_of(near)
        assert (told["ended"], told["events"], told["durable"]) == ("it was deleted", [], None)
        assert told["after"] == told["last"] == begun["cursor"]
        last = GENESIS
        while "ended" not in (batch := await batch_of(far)):
            last = batch["last"]
        assert batch["after"] == batch["last"] == last
        assert decode_cursor(last).seq < 402
        late, sent = (await joining)[0], asyncio.Queue[bytes]()
        await late.run(sent.put)
        assert b"it was deleted" in sent.get_nowait()
        assert "result" in await near.ask("session/unsubscribe", {"subscriptionId": begun["subscriptionId"]})
        assert backend.hub.followed_streams == 0
        again = await near.ask("session/subscribe", {"sessionId": "s"})
        assert again["error"]["code"] == ERRORS[ErrorCode.SESSION_UNKNOWN].rpc


async def test_a_read_that_fails_because_the_stream_ended_is_no_fault() -> None:
    """What cannot be read any more is told as the end."""
    backend, sent = backend_with(400), asyncio.Queue[bytes]()
    subscription, _ = await backend.hub.subscribe("session/s", GENESIS, 1 << 20)

    class Gone:
        async def read(self, stream: str, after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
            backend.hub.end(stream, "it was deleted")
            raise GloveportError(ErrorCode.SESSION_UNKNOWN, "there is no such session")

        async def head(self, stream: str) -> Head | None:
            return None

    subscription._source = Gone()
    await subscription.run(sent.put)
    assert b"it was deleted" in sent.get_nowait()
