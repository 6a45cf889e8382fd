"""Archives in their jail: what is listed, what is unpacked, and what never is."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.kit.hands import hand_table

from gloveport.protocol.errors import GloveportError
from gloveport.server.tools.archives import UnpackArchiveArguments, places_of

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


def packed(*members: tuple[str, bytes]) -> bytes:
    """A zip of these."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members:
            made.writestr(name, data)
    return out.getvalue()


def lying() -> bytes:
    """A member that claims five bytes and has nine million."""
    made = bytearray(packed(("a", b"\0" * 9_000_000)))
    at = made.rfind(b"PK\1\2")
    made[at + 24 : at + 28] = struct.pack("<I", 5)
    return bytes(made)


def overlapping(count: int) -> bytes:
    """Many members that are all the same eight million bytes of the file."""
    made = packed(("k", b"\0" * 8_000_000))
    end = made.rfind(b"PK\5\6")
    begin = struct.unpack("<I", made[end + 16 : end + 20])[0]
    entries = b"".join(
        made[begin : begin + 28] + b"\6\0" + made[begin + 30 : begin + 46] + b"%06d" % number for number in range(count)
    )
    tail = struct.pack("<HHHHIIH", 0, 0, count, count, len(entries), begin, 0)
    return made[:begin] + entries + b"PK\5\6" + tail


def negative() -> bytes:
    """A tar file whose one member has less than no bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        made.addfile(tarfile.TarInfo("n"))
    data = bytearray(out.getvalue())
    data[124:136], data[148:156] = b"\xff" * 12, b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


def zeros(count: int, size: int) -> bytes:
    """Members of zeros, as a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for number in range(count):
            info = tarfile.TarInfo(f"zeros{number}")
            info.size = size
            made.addfile(info, io.BytesIO(bytes(size)))
    return out.getvalue()


def nasty() -> dict[str, bytes]:
    """Archives by name."""
    return {
        "inner.zip": packed(("inner.zip", packed(("x", b"0" * 1000)))),
        "lying.zip": lying(),
        "overlapping.zip": overlapping(200),
        "few.zip": overlapping(3),
        "negative.tar": negative(),
        "zeros.tar.bz2": bz2.compress(zeros(6, 7_000_000)),
        "zeros.tar.gz": gzip.compress(zeros(2, 9_000_000)),
        "zeros.tar.xz": lzma.compress(zeros(1, 1_000_000)),
        "cut.tar.gz": gzip.compress(zeros(1, 100_000))[:-60],
    }


async def test_archives_that_mean_harm_are_told_and_give_nothing(tmp_path: Path) -> None:
    """Within its limits each, and a well packed one is no attack."""
    files = nasty()
    async with hand_table(tmp_path, files) as table:
        looked = ("overlapping.zip", "negative.tar", "zeros.tar.bz2", "zeros.tar.xz", "cut.tar.gz")
        listed = {name: await table.use("list_archive", path=name) for name in looked}
        for name, member, words in (
            ("inner.zip", "inner.zip", "Unpacked: inner.zip"),  # as one file; nothing inside it is unpacked unasked
            ("lying.zip", "a", "it is damaged"),
            ("few.zip", "000001", "it is damaged"),
            ("negative.tar", "n", "it is no plain file"),
            ("zeros.tar.gz", "zeros1", "it is larger than what may be unpacked"),
            ("cut.tar.gz", "zeros0", "it is damaged"),
        ):
            assert words in (await table.use("unpack_archive", path=name, members=[member])).text, name
    bad = {name: done.text for name, done in listed.items() if done.outcome != "ok"}
    assert bad.keys() == {"overlapping.zip", "cut.tar.gz"}, bad
    assert "larger than 1073741824 bytes together" in bad["overlapping.zip"]
    assert listed["zeros.tar.bz2"].text.splitlines()[-1] == '["zeros5", "file", 7000000]'
    assert listed["zeros.tar.xz"].text.splitlines()[-1] == '["zeros0", "file", 1000000]'
    assert listed["negative.tar"].text.splitlines()[-1] == '["n", "special", -1]'


@pytest.mark.parametrize(
    "members", [("a", "A"), ("caf\u00e9", "cafe\u0301"), ("a", "a/b"), ("A", "a/b"), ("sub/./a", "sub/a"), ("a", "a")]
)
async def test_names_that_are_one_somewhere_are_not_unpacked_together(members: tuple[str, ...]) -> None:
    with pytest.raises(GloveportError):
        places_of(UnpackArchiveArguments(path="twice.zip", members=list(members), into="new"))


async def test_members_that_git_would_take_for_its_own_are_refused_before(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a.zip": packed(("a", b"x"))}) as table:
        for member in (".git/hooks/pre-commit", ".GIT/config", ".g\u200cit/config", "git~1/config"):
            with pytest.raises(GloveportError, match="never changed"):
                await table.use("unpack_archive", path="a.zip", members=[member])


@pytest.mark.parametrize("member", ["../out.txt", "/abs.txt", "a/../../b", "x\\..\\y"])
async def test_a_name_that_leads_elsewhere_is_refused_before(tmp_path: Path, member: str) -> None:
    async with hand_table(tmp_path, FILES) as table:
        with pytest.raises(GloveportError):
            await table.use("unpack_archive", path="a.zip", members=[member], into="new")
