"""A sandbox on another machine is sent the copy of the folder: what earlier sessions left there confidential stays."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, new_home, run

from gloveport.protocol.journal.events import LabelledFile
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.sandbox.backends.memory import MemorySandbox


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose sandbox says that it is another machine."""
    with new_home() as made:
        made.write(a__txt="one\n")
        made.play({"when": {"turn": 0}, "calls": [run("hold")]}, {"text": "Done."})
        monkeypatch.setattr(MemorySandbox, "host", property(lambda _self: "build.example"))
        yield made


async def label(kit: Kit, session_id: str, *readers: str) -> None:
    """An earlier session left the file confidential for all but these."""
    record = LabelRecord(integrity=1, readers=readers, provenance=("secret-like:a.txt",))
    path = str(kit.home.root / "a.txt")
    await kit.sessions.room.labels.ready()
    await kit.sessions.room.labels.note(session_id, (LabelledFile(path=path, digest="0" * 64, label=record),))


async def test_what_an_earlier_session_left_confidential_is_not_sent_to_another_machine(home: Home) -> None:
    """The session itself has read nothing. Where the machine is among the readers, it is asked about as ever."""
    async with home.room() as kit:
        earlier, session_id = await kit.begin(), await kit.begin()
        await label(kit, earlier, "api.example")
        await kit.send(session_id)
        await kit.idle(session_id)
        assert await kit.ends(session_id) == ["denied"]
        (decided,) = await kit.bodies(session_id, "PolicyDecided")
        assert "kernel:confidential" in decided["rule_ids"]
        assert "build.example" in decided["reason"]


@pytest.mark.parametrize("readers", [None, ("api.example", "build.example")], ids=["nothing", "the machine"])
async def test_positive_control_what_it_may_read_is_asked_about_as_ever(
    home: Home, readers: tuple[str, ...] | None
) -> None:
    async with home.room() as kit:
        earlier, session_id = await kit.begin(), await kit.begin()
        if readers is not None:
            await label(kit, earlier, *readers)
        await kit.send(session_id)
        card = (await kit.waiting(session_id)).card
        assert any("build.example" in note for note in card["notes"])
