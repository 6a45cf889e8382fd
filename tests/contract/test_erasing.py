"""A text that is taken out of a session's record: gone from every file, its session works on, nothing is loosened."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kit.room import Home, Kit, call, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.wire.session import SessionEraseParams, SessionEraseResult, SessionRenameParams
from gloveport.protocol.wire.turn import ApprovalResolveParams, TurnEditParams, TurnUnqueueParams
from gloveport.server.cli import erasing as command_line
from gloveport.server.engine import erasing
from gloveport.server.engine.erase_search import Search
from gloveport.server.engine.prompt import model_request
from gloveport.server.journal.errors import JournalError

SECRET = 'tok-"äöü"-93Q7xyzzy'
DONE = {"text": f"I saw {SECRET} there.", "chunk_chars": 3}
CATS = {"when": {"turn": 0}, "calls": [call("read_file", path="a.txt")]}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose one file holds the text."""
    with new_home() as made:
        made.write(a__txt=f"first\n{SECRET}\n")
        made.play(CATS, DONE)
        yield made


def holders(home: Home) -> list[str]:
    """Files of the journal and outputs that hold the text, in any of its spellings."""
    forms = Search(SECRET).forms
    files = [*home.data.glob("*"), *(home.data / "blobs").rglob("*")]
    return [path.name for path in files if path.is_file() and any(form in path.read_bytes() for form in forms)]


def params(session_id: str, name: str = "erase", text: str = SECRET) -> SessionEraseParams:
    """A request to erase, with the mark as it is to be typed."""
    return SessionEraseParams(client_request_id=name, session_id=session_id, text=text, typed=session_id[-6:])


async def erase(kit: Kit, session_id: str) -> SessionEraseResult:
    """Erase the text."""
    done: SessionEraseResult = await kit.call("session/erase", params(session_id))
    return done


async def test_the_text_is_gone_from_the_record_and_the_session_works_on(home: Home) -> None:
    """Message, call, result, answer and its pieces: no file of the journal holds it; the chain verifies."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, f"look for {SECRET}")
        await kit.idle(session_id)
        assert holders(home)
        done = await erase(kit, session_id)
        assert done.events >= 4
        assert any("audit log" in words for words in done.stays)
        assert SECRET not in str(model_request(kit.actor(session_id).state, ()))
        report = await kit.journal.verify(session_stream(SessionId(session_id)))
        assert (report.ok, len(report.erased)) == (True, done.events)
        assert SECRET not in str(await kit.events(session_id))
        opaque = [item["fields"] for item in kit.actor(session_id).view.items() if item["kind"] == "opaque"]
        assert opaque
        assert all(fields["erased"] is True for fields in opaque)  # it is not told as a newer version's
        assert holders(home) == []
        await kit.send(session_id, "go on")
        assert (await kit.idle(session_id))[-1] == "TurnCompleted"
        assert await kit.bodies(session_id, "TextErased")


async def test_what_was_read_keeps_its_label(home: Home) -> None:
    """The result that raised the session's label is erased; the label is not lowered by it."""
    home.write(a__txt=f"key={SECRET}\nAKIAIOSFODNN7EXAMPLE\n")
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        before = kit.actor(session_id).state.label
        assert before != kit.actor(await kit.begin()).state.label
        await erase(kit, session_id)
        assert kit.actor(session_id).state.label == before
    async with home.room() as kit:
        assert (await kit.sessions.open(session_id)).state.label == before


async def test_it_needs_the_mark_rest_and_a_title_without_it(home: Home) -> None:
    """Refusals leave everything as it was."""
    home.play({"when": {"turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        session_id = await kit.begin()
        wrong = params(session_id).model_copy(update={"typed": "nope"})
        assert (await kit.refused("session/erase", wrong)).code is ErrorCode.INVALID_PARAMS
        await kit.call(
            "session/rename", SessionRenameParams(client_request_id="n", session_id=session_id, title=SECRET)
        )
        assert (await kit.refused("session/erase", params(session_id))).code is ErrorCode.INVALID_PARAMS
        await kit.call("session/rename", SessionRenameParams(client_request_id="m", session_id=session_id, title="x"))
        await kit.send(session_id, SECRET)
        await kit.answer(session_id, await kit.waiting(session_id))
        await home.ladder.began.wait()
        assert (await kit.refused("session/erase", params(session_id, "busy"))).code is ErrorCode.TURN_BUSY
        home.ladder.go.set()
        await kit.idle(session_id)
        assert (await erase(kit, session_id)).events >= 2, "the old title and the message"


async def test_a_daemon_that_dies_on_the_way_leaves_it_whole_or_gone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the transaction nothing of the record is changed; asking again erases it. Said twice it is done once."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, SECRET)
        await kit.idle(session_id)
        before = await kit.events(session_id)

        async def dies(*_args: Any) -> None:
            raise JournalError(ErrorCode.NOT_SAVED, "gone")

        with monkeypatch.context() as patch:
            patch.setattr(erasing, "_write", dies)
            assert (await kit.refused("session/erase", params(session_id))).code is ErrorCode.NOT_SAVED
        assert await kit.events(session_id) == before
    async with home.room() as kit:
        first = await erase(kit, session_id)
        assert first.events
        assert await erase(kit, session_id) == first, "the same request is answered, not done again"
        assert (await kit.call("session/erase", params(session_id, "again"))).events == 0
    assert holders(home) == []


async def test_an_output_that_another_session_holds_stays_and_is_told(home: Home) -> None:
    """Outputs are kept by what they hold: one of two sessions that refer to it does not take it from the other."""
    async with home.room() as kit:
        sessions = [await kit.begin(), await kit.begin()]
        held = await kit.sessions.room.blobs.put(SECRET.encode())
        for name in sessions:
            await refer(kit, name, held.digest)
        first = await erase(kit, sessions[0])
        assert (first.outputs, await kit.sessions.room.blobs.has(held.digest)) == (0, True)
        assert any("another session holds" in words for words in first.stays)
        alone = await kit.sessions.room.blobs.put(b"before " + SECRET.encode())
        await refer(kit, sessions[1], alone.digest)
        again: SessionEraseResult = await kit.call("session/erase", params(sessions[1], "second"))
        assert (again.outputs, await kit.sessions.room.blobs.has(alone.digest)) == (1, False)


async def refer(kit: Kit, session_id: str, digest: str) -> None:
    """Let a session's log refer to a blob."""
    label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
    body = ev.ReleaseIssued(
        turn_id="t1", goal_revision=1, call_id="t1.c1", approval_id="a", grant_id=f"g{digest[:4]}", effect="network",
        scheme="https", host="a.example", port=443, payload_blob=digest, payload_bytes=3, label=label, expires_at=9,
    )  # fmt: skip
    await kit.actor(session_id).record((body,))


async def test_what_limits_a_session_is_not_erased(home: Home) -> None:
    """A freeze whose words hold the text stays in force; it is told as what stays."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.actor(session_id).record(
            (ev.SessionFrozen(freeze_id="f1", call_id="", evidence=SECRET, words="It tried to get out."),)
        )
        done = await erase(kit, session_id)
        assert any("SessionFrozen" in words for words in done.stays)
        assert (await kit.sessions.open(session_id)).state.frozen == "f1"
        with pytest.raises(GloveportError):
            await kit.send(session_id, "go on")


async def test_a_text_that_came_in_pieces_is_found(home: Home) -> None:
    """No piece of an output holds it; together they do, and all of them go."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        (call_id,) = {body["call_id"] for body in await kit.bodies(session_id, "ToolCallProposed")}
        born: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1, "call_id": call_id}
        pieces = ("public ", "hunter2-", "is-", "the-word", " end")
        offsets = [sum(map(len, pieces[:number])) for number in range(len(pieces))]
        for offset, text in zip(offsets, pieces, strict=True):
            fact = ev.ToolExecutionProgress(**born, offset=offset, text=text)
            await kit.actor(session_id).record((fact,))
        asked = params(session_id, text="hunter2-is-the-word")
        done: SessionEraseResult = await kit.call("session/erase", asked)
        assert done.events == len(pieces)


async def test_a_call_whose_result_was_erased_is_told_with_how_it_ended(home: Home) -> None:
    """Nothing of it is unknown, so that the model has no reason to do it again."""
    home.play(CATS, {"text": "Done."})
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        await erase(kit, session_id)
        (shown,) = [one for one in kit.actor(session_id).view.items() if one["kind"] == "tool"]
        assert shown["fields"]["state"] == "ok"
        await kit.send(session_id, "go on")
        await kit.idle(session_id)
        told = str(model_request(kit.actor(session_id).state, ()))
        assert "It had ended: ok" in told
        assert "effects unknown" not in told
    async with home.room() as kit:
        assert str(model_request((await kit.sessions.open(session_id)).state, ())) == told


async def test_a_call_that_nobody_knows_can_still_be_settled(home: Home) -> None:
    """Its proposal and its end held the text and are gone; that its outcome is open is kept."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
        born: dict[str, Any] = {"turn_id": "t9", "goal_revision": 9, "call_id": "t9.c1"}
        await kit.actor(session_id).record(
            (
                ev.TurnStarted(turn_id="t9", goal_revision=9, message_id="m9"),
                ev.ToolCallProposed(
                    **born, provider_call_id="p9", tool="run_command", arguments_json=json.dumps({"argv": [SECRET]}),
                    arguments_digest="0" * 64, label=label,
                ),
                ev.ToolExecutionFinished(
                    **born, tool="run_command", outcome="lost", text=SECRET, evidence="", exit_code=None,
                    output_blob=None, output_bytes=0, duration_us=None, label=label,
                ),
                ev.TurnCompleted(turn_id="t9", goal_revision=9, reason="end"),
            )
        )  # fmt: skip
        open_calls = kit.actor(session_id).state.unknowns
        assert [one.call_id for one in open_calls] == ["t9.c1"]
        await erase(kit, session_id)
        assert (await kit.sessions.open(session_id)).state.unknowns == open_calls
    assert holders(home) == []


async def test_pieces_between_pieces_of_another_are_found(home: Home) -> None:
    """Two that speak at once: each one's pieces belong together, whoever's stand between them."""
    home.write(a__txt="nothing\n")
    read = call("read_file", path="a.txt")
    home.play({"when": {"turn": 0}, "calls": [read, read]}, {"text": "Done."})
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        one, other = sorted({body["call_id"] for body in await kit.bodies(session_id, "ToolCallProposed")})
        born: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1}
        for call_id, offset, text in ((one, 0, SECRET[:9]), (other, 0, "other"), (one, 9, SECRET[9:])):
            await kit.actor(session_id).record(
                (ev.ToolExecutionProgress(**born, call_id=call_id, offset=offset, text=text),)
            )
        assert (await erase(kit, session_id)).events == 2
        assert [body.get("text") for body in await kit.bodies(session_id, "ToolExecutionProgress")].count("other") == 1


async def test_names_that_the_model_made_up_are_erased(home: Home) -> None:
    """A tool that there is none of, and the id that a provider gave a call, are the model's own text."""
    home.play({"when": {"turn": 0}, "calls": [call(f"use_{SECRET}", path="a")]}, {"text": "Done."})
    label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "look")
        await kit.idle(session_id)
        proposed = ev.ToolCallProposed(
            **BORN, provider_call_id=f"id-{SECRET}", tool="read_file", arguments_json="{}", arguments_digest="0" * 64,
            label=label,
        )  # fmt: skip
        await kit.actor(session_id).record((proposed,))
        await erase(kit, session_id)
        assert SECRET not in str(kit.actor(session_id).view.items())
        assert SECRET not in str(model_request(kit.actor(session_id).state, ()))
    assert set(holders(home)) <= {"audit.jsonl"}, "its lines are told as what stays"


def _changed(label: LabelRecord) -> ev.ChangeProposed:
    """A proposal, which the session needs."""
    return ev.ChangeProposed(
        **BORN, change_id="c", path="a.txt", renamed_from=None, kind="create", base_hash=None, result_hash="0" * 64,
        base_mode=None, result_mode=0o644, hunks=(), digest="0" * 64, runs_by_itself=None, label=label,
    )  # fmt: skip


async def test_a_source_of_a_label_is_told_by_its_digest_and_the_label_stays(home: Home) -> None:
    """A host was named by the text: neither what erases it nor what comes after names it; nothing falls by that."""
    label = LabelRecord(integrity=2, readers=("one@a.example",), provenance=("gloveport", f"http:{SECRET}.example"))
    proposed = ev.ToolCallProposed(
        **BORN, provider_call_id="p9", tool="http_request", arguments_json="{}", arguments_digest="0" * 64, label=label,
    )  # fmt: skip
    finished = ev.ToolExecutionFinished(
        **BORN, tool="http_request", outcome="ok", text="fine", evidence="", exit_code=None, output_blob=None,
        output_bytes=0, duration_us=None, label=label,
    )  # fmt: skip
    turn = {"turn_id": "t1", "goal_revision": 1}
    started = ev.TurnStarted(**turn, message_id="m")
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.actor(session_id).record((started, proposed, finished, ev.TurnCompleted(**turn, reason="end")))
        await kit.actor(session_id).record((_changed(label),))
        await kit.sessions.room.labels.note(session_id, (ev.LabelledFile(path="/w/a", digest=None, label=label),))
        done = await erase(kit, session_id)
        assert any(words.startswith("1 record of what all sessions share") for words in done.stays)
        (fact,) = await kit.bodies(session_id, "TextErased")
        assert SECRET not in str(fact)
        assert {body["change_id"] for body in await kit.bodies(session_id, "ChangeProposed")} == {"c"}, "it acts"
        assert SECRET not in str(await kit.bodies(session_id, "ToolExecutionFinished"))
    async with home.room() as kit:
        state = (await kit.sessions.open(session_id)).state
    for kept in (state.label, state.file_labels["a.txt"]):
        assert (kept.integrity, kept.readers) == (2, ("one@a.example",))
        assert SECRET not in str(kept)
        assert sum(source.startswith("erased:") for source in kept.provenance) == 1


async def test_an_answer_that_told_a_whole_command_is_kept_without_it(home: Home) -> None:
    """Asked again it is answered in the same shape, and nothing is done twice."""
    home.play({"when": {"turn": 0}, "calls": [run("echo", SECRET)]}, {"text": "Done."})
    home.ladder.go.set()
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "go")
        card = await kit.waiting(session_id)
        asked = ApprovalResolveParams(
            client_request_id="allow", session_id=session_id, approval_id=card.approval_id,
            card_digest=card.card_digest, decision="allow",
        )  # fmt: skip
        told = await kit.call("approval/resolve", asked)
        assert "echo" in told.sentence
        await kit.idle(session_id)
        await erase(kit, session_id)
        again = await kit.call("approval/resolve", asked)
        assert (again.sentence, again.grant_id) == ("[erased]", told.grant_id)
    assert set(holders(home)) <= {"audit.jsonl"}


async def test_what_was_set_aside_is_erased_and_copies_are_told(home: Home) -> None:
    """The text behind a damaged end goes as well; a copy that an upgrade left stays, by its name."""
    async with home.room() as kit:
        session_id = await kit.begin()
        seq = kit.actor(session_id).cursor.seq
        await kit.send(session_id, f"the key is {SECRET}")
        await kit.idle(session_id)
    (home.data / "journal.db.v1.backup").write_bytes(b"as it was")
    async with home.room() as kit:
        await kit.journal.set_aside(session_stream(SessionId(session_id)), seq + 1, "damaged")
        done = await erase(kit, session_id)
        assert done.events
        assert any("journal.db.v1.backup" in words for words in done.stays)
    assert holders(home) == []


@pytest.mark.parametrize("way", ["taken back", "delivered with another text"])
async def test_a_message_that_was_taken_back_does_not_come_back(home: Home, way: str) -> None:
    """Its edit held the text: everything that is known of the message goes, so that no half of it is acted on."""
    home.play({"when": {"turn": 0, "turns_total": 0}, "calls": [run("hold")]}, {"text": "Done."})
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, "first")
        await kit.answer(session_id, await kit.waiting(session_id))
        await home.ladder.began.wait()
        await kit.send(session_id, "delete the old release", queue=True)
        (waiting,) = kit.actor(session_id).state.queue
        named: dict[str, Any] = {"session_id": session_id, "message_id": waiting.message_id}
        await kit.call("turn/edit", TurnEditParams(client_request_id="edit", text=f"use {SECRET}", **named))
        if way == "taken back":
            await kit.call("turn/unqueue", TurnUnqueueParams(client_request_id="back", **named))
        home.ladder.go.set()
        await kit.idle(session_id)
        await erase(kit, session_id)
        assert kit.actor(session_id).state.queue == ()
        await kit.send(session_id, "say hello")
        await kit.idle(session_id)
        assert [body.get("text") for body in await kit.bodies(session_id, "UserMessageAdded")][-1] == "say hello"
        assert "delete the old release" not in str(await kit.events(session_id))
    assert holders(home) == []


async def test_what_is_erased_is_not_in_memory_either_where_a_reader_holds_old_bytes(home: Home) -> None:
    """Refused as busy after the transaction: the session is read anew, and its record says what was done."""
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, SECRET)
        await kit.idle(session_id)

        async def busy(*_args: Any) -> int:
            raise JournalError(ErrorCode.BUSY, "a reader still holds the old bytes")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.journal, "erase", busy)
            assert (await kit.refused("session/erase", params(session_id))).code is ErrorCode.BUSY
        state = (await kit.sessions.open(session_id)).state
        assert SECRET not in str(model_request(state, ()))
        assert await kit.bodies(session_id, "TextErased")


BORN: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1, "call_id": "t1.c1"}
KEY = "-----BEGIN KEY-----\n" + "QUJD/+\n" * 300 + "-----END KEY-----"
SAYINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON in JSON": lambda text: json.dumps({"argv": ["curl", "-d", json.dumps({"k": [json.dumps(text)]})]}),
    "upper-case escapes": lambda text: "".join(f"\\u{ord(c):04X}" if ord(c) > 126 else c for c in json.dumps(text)),
    "escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "other ends of lines": lambda text: text.replace("\n", "\r\n"),
    "in base64": lambda text: base64.b64encode(b"x" + text.encode()).decode(),
    "in base64, in lines": lambda text: base64.encodebytes(b"x" * 50 + text.encode()).decode(),
    "in hexadecimal, in lines": lambda text: "\n".join(re.findall(".{1,10}", text.encode().hex())),
    "in hexadecimal": lambda text: text.encode().hex(),
    "within a program": lambda text: f"print({text!r})",
}


@pytest.mark.parametrize("text", [SECRET, 'pa"s/w\U0001f600', KEY], ids=["quoted", "short", "long"])
@pytest.mark.parametrize("saying", SAYINGS)
def test_a_text_is_found_however_it_is_spelled(text: str, saying: str) -> None:
    """In a call's arguments, in a message and in an output; another text is not."""
    spelled = SAYINGS[saying](text)
    written = json.dumps({"content": spelled})
    label = LabelRecord(integrity=0, readers=None, provenance=())
    proposed = ev.ToolCallProposed(
        **BORN,
        provider_call_id="c1",
        tool="run_command",
        arguments_json=written,
        arguments_digest="0" * 64,
        label=label,
    )
    said = ev.UserMessageEdited(message_id="m", text=f"use {spelled} there")
    for asked, found in ((Search(text), True), (Search("another-" + text[::-1]), False)):
        assert (asked.in_body(proposed), asked.in_body(said)) == (found, found)
        assert asked.in_bytes(b"\xff" + written.encode()) is found


@pytest.mark.parametrize(
    "word", ["message", "session", "digest", "arguments", "content", "run_command", "provider_call"]
)
def test_names_of_the_record_are_nothing_that_was_said(word: str) -> None:
    """Keys, ids and fixed words are not searched, so that a plain word does not take the record with it."""
    label = LabelRecord(integrity=0, readers=None, provenance=("session",))
    proposed = ev.ToolCallProposed(
        **BORN, provider_call_id="p1", tool="run_command", arguments_json='{"content":"x","message":1}',
        arguments_digest="0" * 64, label=label,
    )  # fmt: skip
    assert not Search(word, {"run_command"}).in_body(proposed)
    assert not Search(word).in_body(ev.UserMessageEdited(message_id="message-1", text="hello"))
    assert Search(word).in_body(ev.UserMessageEdited(message_id="m", text=f"the {word} of it"))


def test_a_text_of_several_lines_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is more than its first line, by which nothing of it would be found."""
    monkeypatch.setattr("sys.stdin", io.StringIO(KEY + "\n"))
    assert command_line._read_text(at_terminal=False) == KEY
