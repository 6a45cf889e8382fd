"""Level 4 where the record itself was attacked: a changed audit log freezes every session, each once."""

import json
import time
from pathlib import Path

import anyio
import pytest
from tests.kit.daemon import Daemon, request_id, run_turn, running_daemon, send, start_session, trust

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.session import SessionThawParams
from gloveport.server.audit.line import Action, Entry, Link, canonical, line_digest, make_line
from gloveport.server.audit.log import AuditLog
from gloveport.server.client.connect import Client

TOLD_S = 60.0
QUIET_S = 1.5
DAY_US = 24 * 3600 * 1_000_000


def script(folder: Path) -> Path:
    """A model that only answers."""
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "plain", "steps": [{"text": "Done."}]}))
    return path


def lines(daemon: Daemon) -> list[dict[str, object]]:
    """The audit log."""
    return [json.loads(line) for line in (daemon.home / "audit.jsonl").read_text().splitlines()]


def edit(daemon: Daemon) -> None:
    """Somebody changes who did something, in a line of the middle."""
    path = daemon.home / "audit.jsonl"
    texts = path.read_text().splitlines(keepends=True)
    at = len(texts) // 2
    texts[at] = texts[at].replace('"actor":"', '"actor":"not-')
    path.write_text("".join(texts))


def cut(daemon: Daemon) -> None:
    """Somebody takes the last lines away."""
    path = daemon.home / "audit.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))


def wedge(daemon: Daemon) -> None:
    """Somebody makes a line that follows the one before, and that no reader has reckoned with."""
    path = daemon.home / "audit.jsonl"
    texts = path.read_bytes().splitlines()
    at = len(texts) // 2
    values = {**json.loads(texts[at]), "action": ["log_damaged"]}
    del values["digest"]
    digest = line_digest(json.loads(texts[at - 1])["digest"], canonical(values))
    texts[at] = canonical({**values, "digest": digest})
    path.write_bytes(b"\n".join(texts) + b"\n")


async def refused(client: Client, session: str) -> GloveportError:
    """The refusal of a message."""
    with pytest.raises(GloveportError) as caught:
        await send(client, session, "go on")
    return caught.value


@pytest.mark.parametrize("attack", [edit, cut, wedge])
async def test_a_changed_audit_log_freezes_each_session_once(tmp_path: Path, attack: object) -> None:
    assert callable(attack)
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            choice = {"provider": "scripted", "model": "test"}
            session, other = [(await start_session(client, root, **choice)).session_id for _ in range(2)]
            for one in (session, other):
                await trust(client, root)
                await send(client, one, "hello")
                assert await run_turn(client, one) == "completed"
        assert daemon.stop() == 0
        attack(daemon)
        daemon.start()
        with anyio.fail_after(TOLD_S):
            while not any(line["action"] in ("log_damaged", "tail_lost") for line in lines(daemon)):
                await anyio.sleep(0.05)
        async with daemon.client() as client:
            follow = client.follow(session)
            await anext(follow)
            with anyio.fail_after(TOLD_S):
                while not any(item["kind"] == "freeze" for item in follow.view.items()):
                    await anext(follow)
            (freeze,) = (item["fields"] for item in follow.view.items() if item["kind"] == "freeze")
            assert "The record of what was done here was changed" in freeze["words"]
            assert "audit log, line" in freeze["evidence"]
            assert (await refused(client, session)).code is ErrorCode.SESSION_FROZEN
            mark = SessionThawParams(client_request_id=request_id(), session_id=session, typed=session[-6:])
            await client.call("session/thaw", mark)
            await send(client, session, "go on")
            assert await run_turn(client, session) == "completed"
        assert [line["action"] for line in lines(daemon)].count("session_freeze") == 1
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            await send(client, session, "go on again")
            assert await run_turn(client, session) == "completed"
            with anyio.fail_after(TOLD_S):  # it is opened for the first time since, and its log is followed beside that
                follow = client.follow(other)
                await anext(follow)
                while not any(item["kind"] == "freeze" for item in follow.view.items()):
                    await anext(follow)
            assert (await refused(client, other)).code is ErrorCode.SESSION_FROZEN


async def test_an_untouched_log_freezes_nothing(tmp_path: Path) -> None:
    """The control, over a crash: a line may be torn, and none is missing."""
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = (await start_session(client, root, provider="scripted", model="test")).session_id
            await send(client, session, "hello")
            assert await run_turn(client, session) == "completed"
        daemon.kill()
        with (daemon.home / "audit.jsonl").open("a") as file:
            file.write('{"seq":')
        daemon.start()
        async with daemon.client() as client:
            await send(client, session, "go on")
            assert await run_turn(client, session) == "completed"
        assert not any(line["action"] == "session_freeze" for line in lines(daemon))


async def begun(client: Client, root: Path) -> str:
    """A session that has answered once."""
    await trust(client, root)
    session = (await start_session(client, root, provider="scripted", model="test")).session_id
    await trust(client, root)
    await send(client, session, "hello")
    assert await run_turn(client, session) == "completed"
    return session


async def thawed(client: Client, session: str) -> None:
    """Its freeze is awaited and taken back, and it goes on."""
    follow = client.follow(session)
    await anext(follow)
    with anyio.fail_after(TOLD_S):
        while not any(item["kind"] == "freeze" for item in follow.view.items()):
            await anext(follow)
    mark = SessionThawParams(client_request_id=request_id(), session_id=session, typed=session[-6:])
    await client.call("session/thaw", mark)
    await works(client, session)


async def works(client: Client, session: str) -> None:
    """Nothing keeps the session from its work, also after a while in which the log was followed."""
    await anext(client.follow(session))
    await anyio.sleep(QUIET_S)
    await send(client, session, "go on")
    assert await run_turn(client, session) == "completed"


def freezes(daemon: Daemon) -> int:
    """How often a session was frozen."""
    return [line["action"] for line in lines(daemon)].count("session_freeze")


async def test_a_damage_freezes_a_session_once_whatever_the_clock_said_and_over_kills(tmp_path: Path) -> None:
    """It was told by a daemon whose clock was a day ahead; later ones die between a line and its checkpoint."""
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            session = await begun(client, root)
        assert daemon.stop() == 0
        edit(daemon)
        path = daemon.home / "audit.jsonl"
        log = await AuditLog.open(path, clock=lambda: time.time_ns() // 1_000 + DAY_US)
        assert await log.find_damage() is not None
        await log.close()
        daemon.start()
        async with daemon.client() as client:
            await thawed(client, session)
            later = await begun(client, root)
        for _ in range(2):
            daemon.kill()
            last = lines(daemon)[-1]
            link = Link(int(str(last["seq"])), str(last["digest"]))
            line = make_line(link, Entry(1, Action.DECISION, "s", "", "", "me", "found"))
            with path.open("ab") as file:
                file.write(line.text + b"\n")
            daemon.start()
            async with daemon.client() as client:
                await works(client, session)
                await works(client, later)  # it began after the damage was told
        assert freezes(daemon) == 1
        assert [line["action"] for line in lines(daemon)].count("log_damaged") == 1


@pytest.mark.parametrize("kept", ["nothing", "the key", "an empty log and the key"])
async def test_a_log_that_is_gone_is_told_and_freezes_each_session_once(tmp_path: Path, kept: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            session = await begun(client, root)
        assert daemon.stop() == 0
        assert freezes(daemon) == 0  # the control: a fresh home has no log either
        for path in daemon.home.glob("audit.jsonl*"):
            if path.name == "audit.jsonl" and "log" in kept:
                path.write_bytes(b"")
            elif not ("key" in kept and path.suffix == ".key"):
                path.unlink()
        daemon.start()
        async with daemon.client() as client:
            await thawed(client, session)
        assert daemon.stop() == 0
        daemon.start()
        async with daemon.client() as client:
            await works(client, session)
        assert freezes(daemon) == 1


async def test_a_log_that_was_put_back_with_its_checkpoint_is_told(tmp_path: Path) -> None:
    """An older pair proves each other; the journal knows how far the log had come when a daemon last began."""
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            session = await begun(client, root)
        assert daemon.stop() == 0
        older = {path: path.read_bytes() for path in daemon.home.glob("audit.jsonl*")}
        for level in ("restricted", "trusted"):  # each has its line, and the second start compares
            daemon.start()
            async with daemon.client() as client:
                await trust(client, root, level)
            assert daemon.stop() == 0
        for path, data in older.items():
            path.write_bytes(data)
        daemon.start()
        async with daemon.client() as client:
            await thawed(client, session)
        daemon.kill()
        daemon.start()
        async with daemon.client() as client:
            await works(client, session)
        assert freezes(daemon) == 1
