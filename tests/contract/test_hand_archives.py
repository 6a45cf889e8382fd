"""Archives in their jail: what is listed, what is unpacked, and what never is."""

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.kit.hands import hand_table

from gloveport.protocol.errors import GloveportError

BOMB_BYTES = 64 * 1024 * 1024


def zipped() -> bytes:
    """A zip with a file, a folder, a link, names that lead elsewhere, and a bomb."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("docs/", "")
        packed.writestr("docs/a.txt", "hello")
        packed.writestr("run.sh", "#!/bin/sh\n")
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "/etc/passwd")
        packed.writestr("../out.txt", "x")
        packed.writestr("/abs.txt", "x")
        packed.writestr("bomb", b"\0" * BOMB_BYTES)
    return out.getvalue()


def tarred() -> bytes:
    """A packed tar with a file, links, a device and names that lead elsewhere."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, kind, target in (
            ("docs/a.txt", tarfile.REGTYPE, ""), ("link", tarfile.SYMTYPE, "/etc"), ("link/x", tarfile.REGTYPE, ""),
            ("hard", tarfile.LNKTYPE, "docs/a.txt"), ("dev", tarfile.CHRTYPE, ""), ("../out.txt", tarfile.REGTYPE, ""),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.size = 5 if kind == tarfile.REGTYPE else 0
            packed.addfile(info, io.BytesIO(b"hello") if info.size else None)
    return out.getvalue()


FILES = {"a.zip": zipped(), "b.tar.gz": tarred(), "c.zip": b"PK\x03\x04 and nothing", "d.bin": b"x" * 100}


async def test_an_archive_is_listed(tmp_path: Path) -> None:
    async with hand_table(tmp_path, FILES) as table:
        first = await table.use("list_archive", path="a.zip")
        second = await table.use("list_archive", path="b.tar.gz")
        for name in ("c.zip", "d.bin"):
            assert (await table.use("list_archive", path=name)).outcome == "failed"
    assert first.text.splitlines() == [
        "members: rows 1 to 7 of 7", '["docs/", "folder", 0]', '["docs/a.txt", "file", 5]', '["run.sh", "file", 10]',
        '["link", "link", 11]', '["../out.txt", "file", 1]', '["/abs.txt", "file", 1]',
        f'["bomb", "file", {BOMB_BYTES}]',
    ]  # fmt: skip
    assert second.text.splitlines()[1:] == [
        '["docs/a.txt", "file", 5]', '["link", "link", 0]', '["link/x", "file", 5]', '["hard", "link", 0]',
        '["dev", "special", 0]', '["../out.txt", "file", 5]',
    ]  # fmt: skip


async def test_named_members_are_unpacked_where_it_was_judged(tmp_path: Path) -> None:
    async with hand_table(tmp_path, FILES) as table:
        done = await table.use("unpack_archive", path="a.zip", members=["docs/a.txt", "run.sh"], into="new")
        assert done.outcome == "ok", done
        assert await table.read("new/docs/a.txt") == b"hello"
        assert not os.access(table.context.workspace.worktree / "new/run.sh", os.X_OK)
        assert table.planned is not None
        assert [(one.kind, one.target) for one in table.planned.effects] == [
            ("read", "a.zip"), ("write", "new/docs/a.txt"), ("write", "new/run.sh"),
        ]  # fmt: skip
        again = await table.use("unpack_archive", path="b.tar.gz", members=["docs/a.txt", "link/x"])
        assert again.outcome == "ok", again
        assert not (table.context.workspace.worktree / "link").is_symlink()


@pytest.mark.parametrize(
    ("path", "member", "words"),
    [
        ("a.zip", "link", "it is no plain file but: link"),
        ("a.zip", "bomb", "it is larger than what may be unpacked"),
        ("a.zip", "none", "there is no such member"),
        ("b.tar.gz", "hard", "it is no plain file but: link"),
        ("b.tar.gz", "dev", "it is no plain file but: special"),
    ],
)
async def test_what_is_no_plain_member_unpacks_nothing(tmp_path: Path, path: str, member: str, words: str) -> None:
    async with hand_table(tmp_path, FILES) as table:
        done = await table.use("unpack_archive", path=path, members=["docs/a.txt", member], into="new")
        assert done.outcome == "failed", done
        assert words in done.text
        assert not (table.context.workspace.worktree / "new").exists()


@pytest.mark.parametrize("member", ["../out.txt", "/abs.txt", "a/../../b", "x\\..\\y"])
async def test_a_name_that_leads_elsewhere_is_refused_before(tmp_path: Path, member: str) -> None:
    async with hand_table(tmp_path, FILES) as table:
        with pytest.raises(GloveportError):
            await table.use("unpack_archive", path="a.zip", members=[member], into="new")
