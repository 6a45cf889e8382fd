"""The e-mail hand: one message to a real server, by an account that it is lent once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.hands import SECRET, Table, hand_table
from tests.kit.mail_server import MESSAGE, PASSWORD, USER, MailServer, mail_server, ways_of

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.egress.authority import LeaseAuthority


def files_with(folder: Path, value: str) -> Iterator[Path]:
    """Files that hold a value."""
    for path in folder.rglob("*"):
        if path.is_file() and value.encode() in path.read_bytes():
            yield path


async def test_one_message_is_sent_as_it_was_shown(tmp_path: Path) -> None:
    async with mail_server() as server:
        async with hand_table(tmp_path, {"out/a.png": b"\x89PNG\r\n\x1a\nx"}, ways=ways_of(tmp_path, server)) as table:
            done = await table.use("send_email", **MESSAGE, attachments=["out/a.png"])
        assert done.outcome == "ok", done
    (message,) = server.messages
    assert server.recipients == [MESSAGE["to"]]
    assert server.users == [USER]
    assert (message["from"], message["subject"], message["to"]) == ("me@example.org", "Süd", ", ".join(MESSAGE["to"]))
    body, picture = message.iter_parts()
    assert body.get_content().splitlines() == ["Hello", ".", "ä"]
    assert (picture.get_content_type(), picture.get_filename()) == ("image/png", "a.png")
    assert picture.get_content() == b"\x89PNG\r\n\x1a\nx"
    assert table.planned is not None
    assert [(one.kind, one.target) for one in table.planned.effects] == [
        ("message", "ann@example.org"), ("message", "bob@example.org"), ("network", f"127.0.0.1:{server.port}"),
        ("read", "out/a.png"),
    ]  # fmt: skip
    assert not table.planned.reversible
    for shown in ("From: me@example.org", "Subject: Süd", "Hello\n.\nä", "Attached: out/a.png (9 bytes, sha256 "):
        assert shown in table.planned.sends
    assert list(files_with(tmp_path, PASSWORD)) == []


async def use(folder: Path, server: MailServer, table_files: dict[str, bytes] | None = None, **account: str) -> Table:
    """A message by this account; the table."""
    async with hand_table(folder, table_files or {"a": b""}, ways=ways_of(folder, server, **account)) as table:
        table.done = await table.use("send_email", **MESSAGE)
    return table


async def test_a_wrong_password_sends_nothing_and_tells_nobody(tmp_path: Path) -> None:
    async with mail_server() as server:
        table = await use(tmp_path, server, password="another-password")
    assert table.done is not None
    assert table.done.outcome == "failed", table.done
    assert table.done.text.startswith("Nothing was sent.")
    assert "another-password" not in table.done.text
    assert server.messages == []


async def test_one_refused_recipient_means_none(tmp_path: Path) -> None:
    async with mail_server() as server:
        server.refuse = ("bob@example.org",)
        table = await use(tmp_path, server)
    assert table.done is not None
    assert table.done.outcome == "failed", table.done
    assert "the server refused bob@example.org: 550 nobody of this name" in table.done.text
    assert server.messages == []


async def test_a_server_that_does_not_answer_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    """It may have been taken, so it is not said to have failed, and nothing is sent a second time."""
    async with mail_server() as server:
        server.silent = True
        table = await use(tmp_path, server)
    assert table.done is not None
    assert table.done.outcome == "unknown", table.done
    assert table.done.text.startswith("Whether the message was taken is unknown; it was not sent again.")
    assert len(server.messages) == server.sessions == 1


async def test_a_server_without_the_asked_tls_gets_no_password(tmp_path: Path) -> None:
    async with mail_server() as server:
        table = await use(tmp_path, server, tls="starttls")
    assert table.done is not None
    assert table.done.outcome == "failed", table.done
    assert (server.users, server.messages) == ([], [])


async def test_tls_is_asked_for_and_the_server_must_prove_itself(tmp_path: Path) -> None:
    known, stranger = LeaseAuthority(), LeaseAuthority()
    for authority in (known, stranger):
        (tmp_path / f"{id(authority)}.pem").write_bytes(authority.root_pem)
    async with mail_server(tls=known.context_for("127.0.0.1")) as server:
        for folder, roots in (("good", known), ("bad", stranger)):
            (tmp_path / folder).mkdir()
            table = await use(tmp_path / folder, server, tls="starttls", ca_file=str(tmp_path / f"{id(roots)}.pem"))
            assert table.done is not None
            assert table.done.outcome == ("ok" if roots is known else "failed"), table.done
    assert "certificate verify failed" in table.done.text
    assert len(server.messages) == len(server.users) == 1


async def test_without_tls_a_password_stays_on_this_machine(tmp_path: Path) -> None:
    async with (
        mail_server() as server,
        hand_table(tmp_path, {"a": b""}, ways=ways_of(tmp_path, server, places="private")) as table,
    ):
        with pytest.raises(GloveportError, match="without TLS could be read on the way"):
            await table.use("send_email", **MESSAGE)


async def test_without_an_account_there_is_no_mail(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a": b""}) as table:
        with pytest.raises(GloveportError, match="no mail account is set up"):
            await table.use("send_email", **MESSAGE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": ["ann@example.org\r\nBcc: x@example.org"]},
        {"to": ["Ann <ann@example.org>"]},
        {"subject": "a\r\nBcc: x@example.org"},
        {"body": f"the key is {SECRET}"},
        {"subject": SECRET},
        {"attachments": ["secret.txt"]},
        {"attachments": ["../outside.txt"]},
        {"to": []},
    ],
    ids=str,
)
async def test_what_is_no_plain_message_is_refused_before_anybody_is_asked(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    async with (
        mail_server() as server,
        hand_table(tmp_path, {"secret.txt": SECRET.encode()}, ways=ways_of(tmp_path, server)) as table,
    ):
        with pytest.raises(GloveportError):
            await table.use("send_email", **{**MESSAGE, **wrong})
    assert server.sessions == 0
