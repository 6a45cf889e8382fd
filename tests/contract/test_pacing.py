"""The gate before a provider, with real tasks: places, turns, breakers, and what is given back."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.kit.clock import VirtualClock
from tests.kit.room import Home, new_home

from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.protocol.journal.events import BreakerClosed, BreakerOpened, EventBody
from gloveport.server.engine.pacing import LANES_MAX, Pacing
from gloveport.server.models.contract import ErrorClass, ModelError
from gloveport.server.models.failures import model_error
from gloveport.server.turn.breaker import FAILURES_MAX, REST_US
from gloveport.server.turn.line import WAITING_MAX

LANE = "openai at model.example"


class Bench:
    """A gate of two places, and what its breakers told."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.told: list[EventBody] = []
        self.pacing = Pacing(self.clock.now_us, self._tell, places=2)
        self.inside: list[str] = []
        self.most = 0

    async def _tell(self, body: EventBody) -> None:
        self.told.append(body)

    @asynccontextmanager
    async def request(self, owner: str, lane: str | None = LANE) -> AsyncIterator[None]:
        """A request that is under way while the block runs."""
        async with self.pacing.passage(lane, owner) as passage:
            self.inside.append(owner)
            self.most = max(self.most, len(self.inside))
            try:
                yield
                if passage is not None:
                    await passage.answered()
            finally:
                self.inside.remove(owner)

    async def fails(self, error_class: ErrorClass = ErrorClass.SERVER, pause_s: float | None = None) -> ModelError:
        """A request that fails so."""
        error = model_error(error_class, "busy")
        error.retry_after_s = pause_s
        with pytest.raises(ModelError) as caught:
            async with self.request("one"):
                raise error
        return caught.value


@pytest.fixture
def bench() -> Bench:
    """A fresh gate."""
    return Bench()


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own."""
    with new_home() as made:
        yield made


async def test_never_more_than_its_places_and_everybody_comes_in(bench: Bench) -> None:
    """Thirty sessions, two places."""
    done: list[str] = []

    async def ask(owner: str) -> None:
        async with bench.request(owner):
            await anyio.lowlevel.checkpoint()
        done.append(owner)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(ask, f"s{number}")
    assert sorted(done) == sorted(f"s{number}" for number in range(30))
    assert bench.most == 2


async def test_who_gives_up_in_the_line_leaves_no_gap(bench: Bench) -> None:
    """A stop while waiting: the next one comes in, and both places are used afterwards."""
    leave, scope = anyio.Event(), anyio.CancelScope()
    came: list[str] = []

    async def hold(owner: str) -> None:
        async with bench.request(owner):
            await leave.wait()

    async def gives_up() -> None:
        with scope:
            async with bench.request("stopped"):
                came.append("stopped")

    async def comes() -> None:
        async with bench.request("next"):
            came.append("next")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold, "a")
        tasks.start_soon(hold, "b")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(gives_up)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(comes)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        leave.set()
    assert came == ["next"]
    await test_never_more_than_its_places_and_everybody_comes_in(bench)


async def test_a_stop_that_comes_with_the_turn_gives_the_place_back(bench: Bench) -> None:
    """Admitted and stopped in the same moment: the place is free for others."""
    scopes = [anyio.CancelScope() for _ in range(3)]
    leave = anyio.Event()

    async def hold(scope: anyio.CancelScope) -> None:
        with scope:
            async with bench.request("a"):
                await leave.wait()

    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(hold, scope)
        await anyio.wait_all_tasks_blocked()
        scopes[0].cancel()
        await anyio.lowlevel.checkpoint()
        scopes[2].cancel()
        scopes[1].cancel()
    await test_never_more_than_its_places_and_everybody_comes_in(bench)


async def test_failures_open_it_a_probe_closes_it_and_both_are_told(bench: Bench) -> None:
    """Refused without being sent while it rests; the words and the pause are for the table of retries."""
    for _ in range(FAILURES_MAX):
        assert (await bench.fails()).error_class is ErrorClass.SERVER
    with pytest.raises(ModelError) as refused:
        async with bench.request("two"):
            raise AssertionError("it was let through")
    assert refused.value.error_class is ErrorClass.PAUSED
    assert refused.value.retry_after_s == pytest.approx(REST_US / 1e6)
    assert LANE in refused.value.message
    bench.clock.pass_s(REST_US / 1e6)
    async with bench.request("two"):
        with pytest.raises(ModelError):
            async with bench.request("three"):
                raise AssertionError("two probes at once")
    async with bench.request("three"):
        pass
    opened, closed = bench.told
    assert isinstance(opened, BreakerOpened)
    assert (opened.kind, opened.name, opened.failures, opened.reason) == ("provider", LANE, FAILURES_MAX, "busy")
    assert isinstance(closed, BreakerClosed)


async def test_a_probe_that_is_given_up_leaves_its_place_to_the_next(bench: Bench) -> None:
    """A stop of the session that probes keeps nobody out."""
    await bench.fails(ErrorClass.RATE, pause_s=3.0)
    bench.clock.pass_s(3.0)
    with anyio.CancelScope() as scope:
        async with bench.request("prober"):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    async with bench.request("next"):
        pass
    assert isinstance(bench.told[-1], BreakerClosed)


@pytest.mark.parametrize(
    "error_class", [ErrorClass.AUTH, ErrorClass.QUOTA, ErrorClass.REFUSED, ErrorClass.CONTEXT, ErrorClass.CONFIG]
)
async def test_an_answer_that_says_no_opens_nothing(bench: Bench, error_class: ErrorClass) -> None:
    """It is an answer, or was never sent."""
    for _ in range(2 * FAILURES_MAX):
        await bench.fails(error_class)
    assert bench.told == []


async def test_lanes_do_not_know_each_other_and_a_script_needs_none(bench: Bench) -> None:
    """Another provider, another key: another breaker."""
    for _ in range(FAILURES_MAX):
        await bench.fails()
    async with bench.request("two", "anthropic"), bench.request("three", None):
        pass
    for number in range(2 * LANES_MAX):
        async with bench.request("many", f"lane {number}"):
            pass


async def test_a_line_has_an_end(bench: Bench) -> None:
    """One more than may wait is told to come again, and the others still come in."""
    leave, full = anyio.Event(), 2 + WAITING_MAX
    done: list[str] = []

    async def ask(owner: str) -> None:
        async with bench.request(owner):
            await leave.wait()
        done.append(owner)

    async with anyio.create_task_group() as tasks:
        for number in range(full):
            tasks.start_soon(ask, f"s{number}")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ModelError, match="too many requests wait"):
            async with bench.request("one more"):
                raise AssertionError("it was let in")
        leave.set()
    assert len(done) == full


async def test_facts_of_the_daemon_are_written_one_after_the_other(home: Home) -> None:
    """Many at once: none is refused by another, each is there once."""
    async with home.room() as kit:
        facts = kit.sessions.room.daemon
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(facts.tell, BreakerClosed(kind="provider", name=f"lane {number}"))
        written = await kit.journal.read(DAEMON_STREAM, 0, 100, 1 << 20)
        assert len(written) == len({event.payload for event in written}) == 20
