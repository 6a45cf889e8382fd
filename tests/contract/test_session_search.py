"""Finding sessions by what was said: which are found, what is shown of them, and where a search ends."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kit.room import SECRET, Home, Kit, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import (
    SessionListParams,
    SessionRenameParams,
    SessionSearchParams,
    SessionSearchResult,
    SessionStartParams,
)
from gloveport.server.commands import views
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.session.views.search import BEFORE_CHARS, HITS_KEPT_MAX, SHOWN_CHARS, Wanted


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home whose model says what it was asked to repeat."""
    with new_home() as made:
        made.play({"when": {"user_contains": "Lighthouse"}, "text": "The Lamp turns."}, {"text": f"Done: {SECRET}."})
        yield made


async def said(kit: Kit, *texts: str) -> str:
    """A session with these messages, each answered."""
    session_id = await kit.begin()
    for text in texts:
        await kit.send(session_id, text)
        await kit.idle(session_id)
    return session_id


async def search(kit: Kit, text: str, **more: object) -> SessionSearchResult:
    """What a client is told."""
    found: SessionSearchResult = await kit.call(
        "session/search", SessionSearchParams.model_validate({"text": text, **more})
    )
    return found


async def test_every_word_in_whatever_case_in_one_message_or_answer(home: Home) -> None:
    """The user's words and the model's, each at its own item; words of two messages are no hit."""
    async with home.room() as kit:
        first, second = await said(kit, "paint the Lighthouse RED"), await said(kit, "mow the lawn", "paint it")
        both = [second, first]
        for text, ids in (
            ("red lighthouse", [first]),
            ("lamp", [first]),
            ("paint", both),
            ("paint lawn", []),
        ):
            assert [one.session.session_id for one in (await search(kit, text)).found] == ids, text
        ((hit,),) = [one.hits for one in (await search(kit, "lamp")).found]
        assert (hit.who, hit.words) == ("agent", "The Lamp turns.")
        shown = await kit.sessions.look(first)
        assert hit.item_id in {item["id"] for item in await shown.items(0, len(shown.view))}


async def test_a_title_is_found_and_another_folder_is_not(home: Home, tmp_path: Path) -> None:
    """By the title that was given; narrowed to one folder."""
    async with home.room() as kit:
        session_id = await said(kit, "go")
        await kit.call(
            "session/rename", SessionRenameParams(client_request_id="r", session_id=session_id, title="Roof repairs")
        )
        (one,) = (await search(kit, "REPAIRS", root=str(home.root))).found
        assert one.title_fits
        assert one.messages == 0
        assert (await search(kit, "repairs", root=str(tmp_path))).found == ()


async def test_no_secret_is_told_and_none_is_found_out(home: Home) -> None:
    """A part of a secret finds nothing; what is shown around a word is redacted."""
    async with home.room() as kit:
        await said(kit, "go on")
        assert (await search(kit, SECRET[:9])).found == ()
        ((hit,),) = [one.hits for one in (await search(kit, "done")).found]
        assert SECRET not in hit.words
        assert "Done" in hit.words


async def test_no_title_tells_a_secret(home: Home) -> None:
    """Neither a search nor the list nor the session itself, in memory or not; the rest of the title stands."""
    async with home.room() as kit:
        session_id = await said(kit, "go on")
        title = f"key {SECRET} here"
        await kit.call("session/rename", SessionRenameParams(client_request_id="r", session_id=session_id, title=title))
        await titles_are_clean(kit)
    async with home.room() as kit:
        assert kit.sessions.all_loaded() == ()
        await titles_are_clean(kit)
        shown = await kit.call("session/show", SessionParams(session_id=session_id))
        assert SECRET not in shown.info.title


async def titles_are_clean(kit: Kit) -> None:
    """What is told of the only session."""
    (found,), (listed,) = (
        (await search(kit, "here")).found,
        (await kit.call("session/list", SessionListParams())).sessions,
    )
    assert found.session.title == listed.title
    assert SECRET not in listed.title
    assert listed.title.startswith("key ")
    assert listed.title.endswith(" here")
    assert (await search(kit, SECRET)).found == ()


async def test_a_folder_is_one_under_all_its_names(home: Home, tmp_path: Path) -> None:
    """Over a link, with a slash behind it, whichever name the session was begun under; not what lies in it."""
    link = tmp_path / "link"
    link.symlink_to(home.root)
    async with home.room() as kit:
        first = await said(kit, "go on")
        over_link = SessionStartParams(client_request_id="s", root=str(link))
        second = (await kit.call("session/start", over_link)).session_id
        await kit.call("session/rename", SessionRenameParams(client_request_id="r", session_id=second, title="go too"))
        for root in (str(home.root), f"{home.root}/", str(link), f"{link}/", f"{home.root}/../{home.root.name}"):
            found, listed = await search(kit, "go", root=root), SessionListParams(root=root)
            assert {one.session.session_id for one in found.found} == {first, second}, root
            sessions = (await kit.call("session/list", listed)).sessions
            assert [one.session_id for one in sessions] == [second, first], root
            page = await kit.call("session/list", SessionListParams(root=root, limit=1))
            assert ([one.session_id for one in page.sessions], page.next_offset) == ([second], 1)
        for root in (str(tmp_path), str(home.root / "sub"), str(tmp_path / "gone")):
            assert (await search(kit, "go", root=root)).found == ()
            assert (await kit.call("session/list", SessionListParams(root=root))).sessions == ()


async def test_nothing_is_opened_and_nothing_without_a_word_is_looked_for(home: Home) -> None:
    """A session that was read by a search is not in memory afterwards; only space is refused."""
    async with home.room() as kit:
        await said(kit, "go on")
    async with home.room() as kit:
        assert len((await search(kit, "go")).found) == 1
        assert kit.sessions.all_loaded() == ()
        refused = await kit.refused("session/search", SessionSearchParams(text="  "))
        assert refused.code is ErrorCode.INVALID_PARAMS


async def test_newest_hits_are_kept_and_all_are_counted(home: Home) -> None:
    """Of many messages the newest ones are shown."""
    async with home.room() as kit:
        await said(kit, *(f"word {number}" for number in range(HITS_KEPT_MAX + 2)))
        (one,) = (await search(kit, "word")).found
        assert one.messages == HITS_KEPT_MAX + 2
        assert [hit.words for hit in one.hits][:2] == [f"word {HITS_KEPT_MAX + 1}", f"word {HITS_KEPT_MAX}"]
        assert len(one.hits) == HITS_KEPT_MAX


@pytest.mark.parametrize(("name", "bound"), [("SEARCH_SESSIONS_MAX", 1), ("SEARCH_BYTES_MAX", 1)])
async def test_a_search_that_ends_early_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, bound: int
) -> None:
    """Too many sessions, or too much to read: what was found stands, and that it is not all."""
    async with home.room() as kit:
        for _ in range(3):
            await said(kit, "go on")
        whole = await search(kit, "go")
        assert (len(whole.found), whole.looked, whole.complete) == (3, 3, True)
        few = await search(kit, "go", limit=2)
        assert (len(few.found), few.complete) == (2, False)
        monkeypatch.setattr(views, name, bound)
        short = await search(kit, "go")
        assert len(short.found) == 1
        assert not short.complete


async def test_a_damaged_session_hides_no_other(home: Home) -> None:
    """One of which an event can't be read is passed over, and the answer is not called complete."""
    async with home.room() as kit:
        damaged, whole = await said(kit, "go on"), await said(kit, "go on")
        with closing(sqlite3.connect(home.data / DATABASE_FILE)) as connection, connection:
            connection.execute("UPDATE event SET payload=7 WHERE stream=? AND seq=2", (f"session/{damaged}",))
        found = await search(kit, "go")
        assert [one.session.session_id for one in found.found] == [whole]
        assert not found.complete


@pytest.mark.parametrize("before", [0, 20, 500])
@pytest.mark.parametrize("after", [0, 20, 500])
def test_a_piece_of_a_long_message_has_the_word_in_it(before: int, after: int) -> None:
    """One line of a bounded length, cut ends marked."""
    text = f"{'ab ' * before}NEEDLE\n\n{'cd ' * after}".strip()
    piece = Wanted.of("needle").piece_of(text)
    assert "NEEDLE" in piece
    assert "\n" not in piece
    assert len(piece) <= SHOWN_CHARS + 2
    assert piece.startswith("…") == (3 * before > BEFORE_CHARS)


@pytest.mark.parametrize("sign", ["ß", "İ", "ŉ", "e\u0301", "a\u0323\u0307", "한", "\u1112\u1161\u11ab", "ﬃ", "😀"])
@pytest.mark.parametrize("count", [1, 100, 1_000])
def test_a_piece_is_where_the_word_is_whatever_case_does_to_lengths(sign: str, count: int) -> None:
    """Signs that become more or fewer when texts are compared, before the word and in it."""
    piece = Wanted.of(f"needle{sign}").piece_of(f"{sign * count} NEEDLE{sign} ist hier")
    assert f"NEEDLE{sign} ist hier" in piece
    assert len(piece) <= SHOWN_CHARS + 2


def test_an_accent_is_one_in_every_spelling() -> None:
    """Composed or not, of the word and of the text."""
    for word, text in (("caf\u00e9", "CAFE\u0301 now"), ("cafe\u0301", "a CAF\u00c9"), ("stra\u00dfe", "STRASSE")):
        assert Wanted.of(word).are_in(text)
    assert not Wanted.of("caf\u00e9").are_in("cafe")
