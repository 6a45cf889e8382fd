"""A sandbox that the settings choose and that does not work here is told before anything is to run in it."""

import asyncio
from pathlib import Path

import pytest
from tests.kit.command_line import running_command_line

from gloveport.sandbox.contract import Availability
from gloveport.server.app import resources
from gloveport.server.app.resources import Ladder
from gloveport.server.settings import Settings

BROKEN = 'restricted = "docker"\nuntrusted = "gvisor"\n[engine]\nhost = "unix:///nowhere/docker.sock"\n'


def test_it_is_told_by_status_doctor_and_at_a_sessions_start(tmp_path: Path) -> None:
    """Each with what it was to be used for, why it does not work, and where to look; a session with another is told
    nothing."""
    (tmp_path / "a.txt").write_text("words\n")
    with running_command_line([{"text": "Done."}], BROKEN) as cli:
        told = cli("daemon", "status").stdout
        assert "Programs of restricted folders are to run in docker, which does not work here: " in told
        assert "Programs of untrusted folders are to run in gvisor" in told
        assert "no socket at /nowhere/docker.sock" in told
        assert "See gloveport doctor --sandbox docker." in told
        assert "in process" not in told
        assert "are to run in docker, which does not work here" in cli("doctor", "--sandbox", "docker", code=1).stdout
        begun = cli("run", "hello", "--trust", "restricted", cwd=tmp_path)
        assert "are to run in docker, which does not work here" in begun.stderr
        named = cli("run", "hello", "--sandbox", "process", "--trust", "trusted", cwd=tmp_path)
        assert "docker" not in named.stderr


async def test_a_trial_that_goes_on_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks meanwhile is told nothing of it; whoever asks later, what it found."""
    goes_on = asyncio.Event()
    tried: list[str] = []

    class Slow(Ladder):
        async def availability(self, name: str) -> Availability:
            tried.append(name)
            await goes_on.wait()
            return Availability(False, "It is broken.", "Mend it.", frozenset(), ())

    ladder = Slow(tmp_path, tmp_path, (), lambda: Settings((), "restricted", {}))
    monkeypatch.setattr(resources, "FAULTS_WAIT_S", 0.05)
    assert await ladder.faults(("docker",)) == {}
    assert await ladder.faults(("docker",)) == {}
    goes_on.set()
    monkeypatch.setattr(resources, "FAULTS_WAIT_S", 30.0)
    assert await ladder.faults(("docker",)) == {"docker": "It is broken. Mend it."}
    assert tried == ["docker"]
    await ladder.close()
