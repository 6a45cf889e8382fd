"""The crash matrix: a real daemon dies exactly at each unreliable boundary; what the log says, what the world holds,
and what the next daemon makes of it."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import TURN_ENDS, Daemon, allow_all, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.base import Empty
from gloveport.server.client.follow import Follow
from gloveport.server.journal.offline import OfflineJournal

WAIT_S = 90.0
DONE = {"text": "Done."}
EDIT = {"name": "edit_file", "arguments": {"path": "a.txt", "old": "one", "new": "one two"}}
RUN = {"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo ran >> witness"]}}
ANSWER = {"text": "The whole answer.", "chunk_chars": 100}


@dataclass
class World:
    """A daemon's home, the user's folder, and the one session of the test."""

    daemon: Daemon
    root: Path
    session_id: str = ""

    @property
    def worktree(self) -> Path:
        """The agent's copy."""
        return self.daemon.home / "sessions" / self.session_id / "worktree"

    def play(self, *steps: dict[str, Any], lookup: str | None = None) -> None:
        """What the model says."""
        script = self.daemon.home / "script.json"
        script.write_text(json.dumps({"name": "matrix", "steps": list(steps), "lookup": lookup}))
        self.daemon.use_script(script)

    def log(self) -> list[dict[str, Any]]:
        """The session's events, read beside whatever runs."""
        with OfflineJournal.open(self.daemon.home) as journal:
            found: list[dict[str, Any]] = []
            stream = session_stream(SessionId(self.session_id))
            while events := journal.read(stream, len(found)):
                found += [{"type": event.type, **json.loads(event.payload)} for event in events]
            assert journal.verify(stream).ok
        return found

    def kinds(self) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in self.log()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """All events of a type."""
        return [event for event in self.log() if event["type"] == kind]

    def dies(self, moment: str) -> Follow | None:
        """Run a turn under a daemon that dies at `moment`; the client that followed, with its cursor and view."""
        self.daemon.start_dying(moment)
        follow = asyncio.run(self._run_until_death())
        self.daemon.wait_dead()
        return follow

    async def _run_until_death(self) -> Follow | None:
        follow: Follow | None = None
        try:
            async with self.daemon.client() as client, asyncio.timeout(WAIT_S):
                await trust(client, self.root, "trusted")
                self.session_id = (await start_session(client, self.root)).session_id
                follow = client.follow(self.session_id)
                await anext(follow)  # a place to come back to, however soon the daemon dies
                await send(client, self.session_id, "go")
                async for _ in follow:
                    if any(item["kind"] == "approval" for item in follow.view.items()):
                        await allow_all(client, self.session_id)
        except (GloveportError, OSError, ExceptionGroup):
            return follow
        return follow

    def goes_on(self) -> list[dict[str, Any]]:
        """Start a real daemon, answer what is asked, and return the view's items once the turn has ended."""
        self.daemon.start()
        return asyncio.run(self._until_rest())

    async def _until_rest(self) -> list[dict[str, Any]]:
        async with self.daemon.client() as client, asyncio.timeout(WAIT_S):
            follow = client.follow(self.session_id)
            async for _ in follow:
                items = follow.view.items()
                if any(i["kind"] == "approval" and i["fields"]["state"] == "pending" for i in items):
                    await allow_all(client, self.session_id)
                if any(i["kind"] == "turn" and i["fields"]["state"] in TURN_ENDS for i in items):
                    return items
        raise AssertionError("the stream ended")

    def starts_again(self) -> list[str]:
        """One more restart changes nothing: resuming twice equals once. The types of all events."""
        before = self.kinds()
        self.daemon.kill()
        self.daemon.start()

        async def ask() -> None:
            async with self.daemon.client() as client:
                await client.call("daemon/status", Empty())

        asyncio.run(ask())
        assert self.kinds() == before
        return before


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A home and a small folder; nothing runs yet."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    with running_daemon(started=False) as daemon:
        yield World(daemon, root)


def turn_of(items: list[dict[str, Any]]) -> str:
    """The state of the one turn."""
    (state,) = [item["fields"]["state"] for item in items if item["kind"] == "turn"]
    return str(state)


def answers(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Text and state of the model's answers."""
    return [(item["fields"]["text"], item["fields"]["state"]) for item in items if item["kind"] == "message.assistant"]


def test_row_1_the_request_is_intended_and_not_sent(world: World) -> None:
    """Log: request intent. World: not called. Recovery: asked safely, once, under the same turn."""
    world.play(ANSWER)
    world.dies("after ModelRequestStarted 1")
    assert world.kinds()[-1] == "ModelRequestStarted"
    items = world.goes_on()
    assert turn_of(items) == "completed"
    assert answers(items)[-1] == ("The whole answer.", "done")
    counts = Counter(world.starts_again())
    assert (counts["TurnStarted"], counts["ModelRequestStarted"], counts["ModelResponseReceived"]) == (1, 2, 1)


@pytest.mark.parametrize("fate", ["finished", "never_accepted", None])
def test_row_2_the_model_has_answered_and_the_answer_is_not_recorded(world: World, fate: str | None) -> None:
    """Log: request started. World: perhaps billed. Recovery: asked by its id; asked again, the second cost recorded."""
    world.play(ANSWER, lookup=fate)
    world.dies("before ModelResponseReceived 1")
    before = world.kinds()
    assert "ModelRequestAccepted" in before
    assert "ModelResponseReceived" not in before
    items = world.goes_on()
    assert turn_of(items) == "completed"
    (found,) = world.of("ModelRequestReconciled")
    assert found["provider_request_id"] is not None
    assert (found["fate"], found["may_be_billed"]) == (fate or "unknown", fate != "never_accepted")
    assert answers(items)[-1] == ("The whole answer.", "done")
    assert Counter(world.starts_again())["ModelResponseReceived"] == 1


def test_row_3_a_call_is_recorded_and_not_judged(world: World) -> None:
    """Log: model response. World: nothing allowed, nothing run. Recovery: the call goes through policy, then runs."""
    world.play({"when": {"turn": 0}, "calls": [EDIT]}, DONE)
    world.dies("after ToolCallProposed 1")
    assert "PolicyDecided" not in world.kinds()
    assert (world.worktree / "a.txt").read_text() == "one\n"
    items = world.goes_on()
    assert turn_of(items) == "completed"
    kinds = world.starts_again()
    assert kinds.index("RecoverySummarised") < kinds.index("PolicyDecided") < kinds.index("ToolExecutionStarted")
    assert Counter(kinds)["ModelRequestStarted"] == 2
    assert (world.worktree / "a.txt").read_text() == "one two\n"


@pytest.mark.parametrize("effect", ["edit", "program"])
def test_row_4_a_call_has_begun_and_changed_nothing(world: World, effect: str) -> None:
    """Log: execution started. World: unchanged. Recovery: found not to have begun, then begun, once."""
    if effect == "program":
        require_bubblewrap()
    world.play({"when": {"turn": 0}, "calls": [EDIT if effect == "edit" else RUN]}, DONE)
    world.dies("after ToolExecutionStarted 1")
    assert world.kinds()[-1] == "ToolExecutionStarted"
    assert (world.worktree / "a.txt").read_text() == "one\n"
    assert not (world.worktree / "witness").exists()
    items = world.goes_on()
    assert turn_of(items) == "completed"
    (found,) = world.of("ToolReconciled")
    assert found["finding"] == "not_started"
    counts = Counter(world.starts_again())
    assert (counts["ToolExecutionStarted"], counts["ToolExecutionFinished"]) == (1, 1)
    happened_once(world, effect)


def happened_once(world: World, effect: str) -> None:
    """The effect is there exactly once."""
    if effect == "edit":
        assert (world.worktree / "a.txt").read_text() == "one two\n"
    else:
        assert (world.worktree / "witness").read_text() == "ran\n"


@pytest.mark.parametrize("effect", ["edit", "program"])
def test_row_5_a_call_took_effect_and_its_result_is_not_recorded(world: World, effect: str) -> None:
    """Log: execution started. World: changed. Recovery: found by hashes, or at the run's supervisor; never repeated."""
    if effect == "program":
        require_bubblewrap()
    world.play({"when": {"turn": 0}, "calls": [EDIT if effect == "edit" else RUN]}, DONE)
    world.dies("before ToolExecutionFinished 1")
    assert "ToolExecutionFinished" not in world.kinds()
    happened_once(world, effect)
    items = world.goes_on()
    assert turn_of(items) == "completed"
    (found,) = world.of("ToolReconciled")
    assert found["finding"] == "succeeded"
    (ended,) = world.of("ToolExecutionFinished")
    assert ended["outcome"] == "ok"
    happened_once(world, effect)
    assert Counter(world.starts_again())["ToolExecutionStarted"] == 1


def test_row_5_a_file_that_is_neither_is_unknown(world: World) -> None:
    """Somebody changed the file meanwhile: unknown is said, nothing is written, and the words say what to do."""
    world.play({"when": {"turn": 0}, "calls": [EDIT]}, DONE)
    world.dies("before ToolExecutionFinished 1")
    (world.worktree / "a.txt").write_text("three\n")
    items = world.goes_on()
    assert turn_of(items) == "failed"
    assert [event["finding"] for event in world.of("ToolReconciled")] == ["unknown"]
    assert (world.worktree / "a.txt").read_text() == "three\n"
    (told,) = world.of("RecoverySummarised")
    assert [(item["kind"], item["outcome"]) for item in told["items"]] == [("call", "unknown")]
    assert told["items"][0]["next"]
    world.starts_again()


@pytest.mark.parametrize("effect", ["edit", "program"])
def test_row_6_the_result_is_recorded_and_the_model_has_not_seen_it(world: World, effect: str) -> None:
    """Log: execution finished. World: changed, with evidence. Recovery: the model is told; nothing runs again."""
    if effect == "program":
        require_bubblewrap()
    told = {"edit": "written", "program": "exit code 0"}[effect]
    world.play(
        {"when": {"turn": 0}, "calls": [EDIT if effect == "edit" else RUN]},
        {"when": {"result_contains": told}, "text": "I saw it."},
        {"text": "I saw nothing."},
    )
    world.dies("after ToolExecutionFinished 1")
    happened_once(world, effect)
    items = world.goes_on()
    assert turn_of(items) == "completed"
    assert answers(items)[-1] == ("I saw it.", "done")
    assert world.of("ToolReconciled") == []
    counts = Counter(world.starts_again())
    assert (counts["ToolExecutionStarted"], counts["ToolExecutionFinished"]) == (1, 1)
    happened_once(world, effect)
    assert not list((world.daemon.home / "runs").glob("*/*")), "what the sandbox kept of the run is given back"


def test_row_7_a_compaction_is_half_done(world: World) -> None:
    """Log: compacting. World: the history as it was. Recovery: the half is dropped and made again from the whole."""
    (world.root / "long.txt").write_text("a line of words\n" * 500 + "MIDDLE\n" + "a line of words\n" * 500)
    world.play(
        {"when": {"result_contains": "MIDDLE"}, "error": {"error_class": "context_overflow"}},
        {"when": {"turn": 0}, "calls": [{"name": "read_file", "arguments": {"path": "long.txt"}}]},
        DONE,
    )
    world.dies("after CompactionStarted 1")
    assert world.kinds()[-1] == "CompactionStarted"
    whole = world.of("ToolExecutionFinished")
    items = world.goes_on()
    assert turn_of(items) == "completed"
    assert world.of("ToolExecutionFinished") == whole
    counts = Counter(world.starts_again())
    assert (counts["CompactionStarted"], counts["ContextCompacted"], counts["CompactionDiscarded"]) == (1, 1, 0)


def test_row_8_the_turn_is_complete_and_no_client_has_seen_it(world: World) -> None:
    """Log: completed. World: done. Recovery: the client catches up from its cursor; no turn starts anew."""
    world.play(ANSWER)
    follow = world.dies("after TurnCompleted 1")
    assert follow is not None
    assert follow.cursor is not None
    kinds = world.kinds()
    assert kinds[-1] == "TurnCompleted"
    unseen = [item["fields"]["state"] for item in follow.view.items() if item["kind"] == "turn"]
    assert "completed" not in unseen
    world.daemon.start()

    async def catch_up() -> list[dict[str, Any]]:
        async with world.daemon.client() as client, asyncio.timeout(WAIT_S):
            later = client.follow(world.session_id, after=follow.cursor, view=follow.view)
            async for update in later:
                assert not update.began_anew
                if update.caught_up:
                    break
            fresh = client.follow(world.session_id)
            async for update in fresh:
                if update.caught_up:
                    break
            assert later.view.digest() == fresh.view.digest()
            return later.view.items()

    items = asyncio.run(catch_up())
    assert turn_of(items) == "completed"
    assert world.kinds() == kinds


def test_f07_done_calls_are_not_made_again_when_a_later_answer_is_cut(world: World) -> None:
    """Killed in the answer after the first of two calls: the done one stays done, the second is made once. F07"""
    second = {"name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}}
    world.play(
        {"when": {"result_contains": "a.txt written"}, "calls": [second]},
        {"when": {"result_contains": "b.txt written"}, "text": "Both are done."},
        {"when": {"turn": 0}, "calls": [EDIT]},
    )
    world.dies("before ModelResponseReceived 2")
    items = world.goes_on()
    assert turn_of(items) == "completed"
    assert answers(items)[-1] == ("Both are done.", "done")
    started = [event["tool"] for event in world.of("ToolExecutionStarted")]
    assert started == ["edit_file", "write_file"]
    assert (world.worktree / "a.txt").read_text() == "one two\n"
    assert (world.worktree / "b.txt").read_text() == "new\n"


@pytest.mark.parametrize("moment", ["after RecoverySummarised 1", "before ToolReconciled 1", "after ToolReconciled 1"])
def test_a_daemon_that_dies_in_its_recovery_is_recovered(world: World, moment: str) -> None:
    """Killed, then killed again at a boundary of the recovery itself: the effect is there once, the turn completes."""
    world.play({"when": {"turn": 0}, "calls": [EDIT]}, DONE)
    world.dies("before ToolExecutionFinished 1")
    with suppress(AssertionError):  # it may be dead before it answers
        world.daemon.start_dying(moment)
    world.daemon.wait_dead()
    items = world.goes_on()
    assert turn_of(items) == "completed"
    happened_once(world, "edit")
    assert Counter(world.starts_again())["ToolExecutionFinished"] == 1


def test_a_session_that_was_never_recorded_leaves_no_folder(world: World) -> None:
    """Killed between the snapshot and the first event: the next start removes what was begun, and nothing else."""
    world.play(ANSWER)
    world.dies("after TurnCompleted 1")
    kept = world.session_id
    world.dies("before SessionCreated 1")
    sessions = world.daemon.home / "sessions"
    assert len(list(sessions.iterdir())) == 2
    world.daemon.start()
    world.session_id = kept
    world.starts_again()
    assert [folder.name for folder in sessions.iterdir()] == [kept]
