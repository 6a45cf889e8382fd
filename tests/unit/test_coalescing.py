"""Joining pieces: nothing lost, nothing reordered, failures as themselves, no task left."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.engine.coalesce import CHARACTERS_MAX, coalescing


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.text(max_size=6), st.sampled_from([0, 0, 1, 2, 30])), max_size=25),
    slow=st.integers(0, 3),
    stop=st.one_of(st.none(), st.integers(0, 20)),
)
def test_nothing_is_lost_or_reordered(pieces: list[tuple[str, int]], slow: int, stop: int | None) -> None:
    """Whatever the pauses, however slow the writer, also when the sender is cancelled between any two pieces."""

    async def main() -> None:
        written: list[str] = []
        given_up: list[str] = []

        async def write(text: str) -> None:
            for _ in range(slow):
                await anyio.lowlevel.checkpoint()
            written.append(text)

        with anyio.CancelScope() as scope:
            async with coalescing(write) as sink:
                for number, (text, pause) in enumerate(pieces):
                    if number == stop:
                        scope.cancel()
                    given_up.append(text)
                    await sink.add(text)
                    for _ in range(pause):
                        await anyio.sleep(0.001 if pause == 30 else 0)
        assert "".join(written) == "".join(given_up)
        assert all(written)

    anyio.run(main)


async def test_the_first_piece_goes_at_once_and_many_go_as_few() -> None:
    """A thousand pieces make a handful of writes, none larger than it has to be."""
    written: list[str] = []

    async def write(text: str) -> None:
        written.append(text)

    async with coalescing(write) as sink:
        await sink.add("first")
        assert written == ["first"]
        for _ in range(1_000):
            await sink.add("0123456789")
    assert sum(map(len, written)) == 10_005
    assert len(written) <= 2 + 10_000 // CHARACTERS_MAX + 1


@pytest.mark.parametrize(
    "failure", [GloveportError(ErrorCode.NOT_SAVED, "not saved"), ZeroDivisionError("a fault of ours")]
)
async def test_a_failed_write_is_raised_as_itself(failure: Exception) -> None:
    """Whether it fails in the sender or in the timer, and no timer is left."""

    async def write(_text: str) -> None:
        raise failure

    async def use(*, by_timer: bool) -> None:
        async with coalescing(write) as sink:
            sink._fresh = not by_timer
            await sink.add("text")
            await anyio.sleep(0.1)
            await sink.add("more")

    tasks_before = len(anyio.get_running_tasks())
    for by_timer in (False, True):
        with pytest.raises(type(failure)) as caught:
            await use(by_timer=by_timer)
        assert caught.value is failure
    assert len(anyio.get_running_tasks()) == tasks_before


async def test_a_failure_of_the_sender_is_raised_as_itself() -> None:
    """What went wrong inside the block comes out unwrapped, with what was held written."""
    written: list[str] = []

    async def write(text: str) -> None:
        written.append(text)

    async def use() -> None:
        async with coalescing(write) as sink:
            await sink.add("one")
            await sink.add("two")
            raise KeyError("sender")

    with pytest.raises(KeyError):
        await use()
    assert written == ["one", "two"]
