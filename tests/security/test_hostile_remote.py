"""A machine that lies: archives, trees and ends that no honest keeper sends.

Purpose: whatever another machine sends back, nothing is written that was not checked here, and nothing outside.
Invariant: each attack differs from an honest archive, which is taken, in one thing.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.ordinary_user import ordinary_user

from gloveport.protocol.jail.replies import TAMPERED
from gloveport.protocol.jail.requests import ParcelPlan
from gloveport.sandbox.runner import keeper_store
from gloveport.sandbox.runner.coming_back import Arrived, Joined, Refused, Tampered, bring, compare, receive
from gloveport.sandbox.runner.parcels import EMPTY, Memory, Parcel, pack
from gloveport.sandbox.runner.remote_run import TAKES_MAX, is_final, tell_refusal

MARKER = "the-marker"
NEW = b"new content"
NEW_HASH = hashlib.sha256(NEW).hexdigest()
Line = list[Any]


def parcel_of(tmp_path: Path, others: tuple[str, ...] = ()) -> Parcel:
    """A folder with a file and a folder, as it is sent."""
    source = tmp_path / "project"
    source.mkdir()
    (source / "old").write_text("old")
    (source / "folder").mkdir()
    plan = ParcelPlan(str(source), "/home/user/project", True)
    return pack(plan, others, frozenset(), Memory(tmp_path / "memory", str(source)))


def honest_lines(parcel: Parcel) -> list[Line]:
    """The tree as it was sent, and a new file."""
    return [*(entry.line(0) for entry in parcel.entries if entry.path), [0, "f", "new", 0o644, 1, len(NEW), NEW_HASH]]


def member(name: str, body: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, len(body)
    for field, value in more.items():
        setattr(entry, field, value)
    return entry, body


def honest_members(lines: Iterable[Line], **end: Any) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """What a keeper lays ready, by name."""
    tree = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    told = {
        "marker": MARKER, "status": 0, "why": "", "output": 0, "entries": tree.count(b"\n"),
        "tree": hashlib.sha256(tree).hexdigest(), "left": [], "left_count": 0, "failed": "", "whole": True, **end,
    }  # fmt: skip
    bodies = {"out/end.json": json.dumps(told).encode(), "out/tree": tree, f"out/b/{NEW_HASH}": NEW, "out/output": b""}
    return {
        "out": member("out", kind=tarfile.DIRTYPE), "out/b": member("out/b", kind=tarfile.DIRTYPE),
        **{name: member(name, body) for name, body in bodies.items()},
    }  # fmt: skip


def pack_members(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """The archive's bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for entry, body in members:
            archive.addfile(entry, io.BytesIO(body) if body else None)
    return packed.getvalue()


def take(tmp_path: Path, raw: bytes) -> Arrived:
    """As a supervisor reads it."""
    return receive(Joined(raw[:100], io.BytesIO(raw[100:])), tmp_path / "back", MARKER)


def bring_lines(tmp_path: Path, lines: Iterable[Line], parcel: Parcel) -> list[str]:
    """Take, compare and write."""
    arrived = take(tmp_path, pack_members(honest_members(lines).values()))
    changes = compare([parcel], [frozenset()], arrived)
    return bring([parcel], changes, arrived)


def test_positive_control_an_honest_archive_is_taken(tmp_path: Path) -> None:
    parcel = parcel_of(tmp_path)
    assert bring_lines(tmp_path, honest_lines(parcel), parcel) == []
    assert (tmp_path / "project" / "new").read_bytes() == NEW


def test_a_tree_that_is_only_too_deep_accuses_nobody(tmp_path: Path) -> None:
    """A program of the run can make one, and the keeper tells what is there: refused whole, and no tampering."""
    parcel = parcel_of(tmp_path)
    deep = [[0, "d", "/".join("x" * number), 0o755, 1, 0, ""] for number in range(1, 200)]
    with pytest.raises(Refused) as caught:
        bring_lines(tmp_path, [*honest_lines(parcel), *deep], parcel)
    assert not isinstance(caught.value, Tampered)


def _replace(name: str, made: tuple[tarfile.TarInfo, bytes]) -> Callable[[dict[str, Any]], None]:
    def change(members: dict[str, Any]) -> None:
        members[name] = made

    return change


OTHER = f"out/b/{'0' * 64}"
ARCHIVES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a content that is another one": _replace(f"out/b/{NEW_HASH}", member(f"out/b/{NEW_HASH}", b"other bytes")),
    "a content under a made-up hash": _replace("more", member(OTHER, NEW)),
    "a link": _replace("more", member(OTHER, kind=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "a hard link": _replace("more", member(OTHER, kind=tarfile.LNKTYPE, linkname="out/tree")),
    "the content as a link": _replace(
        f"out/b/{NEW_HASH}", member(f"out/b/{NEW_HASH}", kind=tarfile.SYMTYPE, linkname="/etc/passwd")
    ),
    "a pipe": _replace("more", member(OTHER, kind=tarfile.FIFOTYPE)),
    "a device": _replace("more", member(OTHER, kind=tarfile.CHRTYPE)),
    "a folder of its own": _replace("more", member("out/b/x", kind=tarfile.DIRTYPE)),
    "a path upwards": _replace("more", member(f"out/../../{NEW_HASH}", NEW)),
    "a path from the root": _replace("more", member("/tmp/x", NEW)),
    "a name that nobody asked for": _replace("more", member("out/b/name", NEW)),
    "the end twice": _replace("more", member("out/end.json", b"{}")),
    "no end": lambda members: members.pop("out/end.json"),
    "no tree": lambda members: members.pop("out/tree"),
    "an end that is no JSON": _replace("out/end.json", member("out/end.json", b"{")),
    "a deep end": _replace("out/end.json", member("out/end.json", b"[" * 100_000)),
    "another tree": _replace("out/tree", member("out/tree", b'[0,"d","x",0,0,0,""]\n')),
}


@pytest.mark.parametrize("attack", ARCHIVES.values(), ids=ARCHIVES.keys())
def test_a_tampered_archive_is_refused(tmp_path: Path, attack: Callable[[dict[str, Any]], None]) -> None:
    members = honest_members(honest_lines(parcel_of(tmp_path)))
    attack(members)
    with pytest.raises(Refused):
        take(tmp_path, pack_members(members.values()))
    assert sorted(os.listdir(tmp_path / "project")) == ["folder", "old"]


TAMPERINGS = ("a content that is another one", "a link", "a path upwards", "the end twice", "another tree")
FAULTS = ("no end", "an end that is no JSON")
"""A way that broke off or a disk that was full looks so, too: nothing is taken, and nobody is accused."""


@pytest.mark.parametrize("name", [*TAMPERINGS, *FAULTS])
def test_what_no_honest_machine_sends_is_told_apart_from_a_broken_way(tmp_path: Path, name: str) -> None:
    members = honest_members(honest_lines(parcel_of(tmp_path)))
    ARCHIVES[name](members)
    with pytest.raises(Refused) as caught:
        take(tmp_path, pack_members(members.values()))
    assert isinstance(caught.value, Tampered) == (name in TAMPERINGS)
    assert tell_refusal(caught.value).startswith(TAMPERED) == (name in TAMPERINGS)


def test_another_runs_end_is_refused(tmp_path: Path) -> None:
    members = honest_members(honest_lines(parcel_of(tmp_path)), marker="another")
    with pytest.raises(Tampered, match="marker"):
        take(tmp_path, pack_members(members.values()))


def test_a_petabyte_that_is_only_said_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The size in a header is a claim; a sparse header is none that we read."""
    entry = tarfile.TarInfo(OTHER)
    entry.size = 1 << 50
    raw = pack_members([]) and entry.tobuf(tarfile.PAX_FORMAT)
    with pytest.raises(Refused, match="larger"):
        take(tmp_path, raw + b"\0" * 1024)


def test_an_archive_that_ends_too_soon_is_refused(tmp_path: Path) -> None:
    raw = pack_members(honest_members(honest_lines(parcel_of(tmp_path))).values())
    for end in (10, 700, 1600, 2500):
        with pytest.raises(Refused):
            receive(Joined(raw[:end], io.BytesIO()), tmp_path / f"back-{end}", MARKER)


def test_a_broken_archive_is_asked_for_once_more_and_a_tampered_one_never(tmp_path: Path) -> None:
    """Its way may have been cut; a machine that lies gets no second word."""
    raw = pack_members(honest_members(honest_lines(parcel_of(tmp_path))).values())
    with pytest.raises(Refused) as broken:
        receive(Joined(raw[:700], io.BytesIO()), tmp_path / "cut", MARKER)
    assert [is_final(broken.value, tries) for tries in range(1, TAKES_MAX + 1)] == [False] * (TAKES_MAX - 1) + [True]
    with pytest.raises(Tampered) as lied:
        receive(Joined(raw, io.BytesIO()), tmp_path / "lied", "another-marker")
    assert is_final(lied.value, 1)


TREES: dict[str, list[Line]] = {
    "upwards": [[0, "f", "../x", 0o644, 1, len(NEW), NEW_HASH]],
    "from the root": [[0, "f", "/etc/x", 0o644, 1, len(NEW), NEW_HASH]],
    "a dot": [[0, "f", "./x", 0o644, 1, len(NEW), NEW_HASH]],
    "an empty part": [[0, "d", "a//b", 0o755, 1, 0, ""]],
    "no name": [[0, "d", "", 0o755, 1, 0, ""]],
    "a zero byte": [[0, "f", "a\0b", 0o644, 1, len(NEW), NEW_HASH]],
    "below a link": [[0, "l", "l", 0o777, 1, 0, "/etc"], [0, "f", "l/x", 0o644, 1, len(NEW), NEW_HASH]],
    "below a file": [[0, "f", "old/x", 0o644, 1, len(NEW), NEW_HASH]],
    "below nothing": [[0, "f", "none/x", 0o644, 1, len(NEW), NEW_HASH]],
    "twice": [[0, "f", "new", 0o644, 1, len(NEW), NEW_HASH]],
    "another folder": [[1, "f", "x", 0o644, 1, len(NEW), NEW_HASH]],
    "where another folder stands": [[0, "d", "other", 0o755, 1, 0, ""]],
    "a content that did not come": [[0, "f", "x", 0o644, 1, 3, "0" * 64]],
    "no hash": [[0, "f", "x", 0o644, 1, 3, "../../x"]],
    "a number that is none": [[0, "f", "x", "0644", 1, len(NEW), NEW_HASH]],
    "a truth as a number": [[True, "f", "x", 0o644, 1, len(NEW), NEW_HASH]],
    "below zero": [[0, "f", "x", -1, 1, len(NEW), NEW_HASH]],
    "a kind of its own": [[0, "p", "x", 0o644, 1, 0, ""]],
    "too few": [[0, "f", "x"]],
    "a path without end": [[0, "d", "x" * 5000, 0o755, 1, 0, ""]],
    "a path too deep": [[0, "d", "/".join("x" * 200), 0o755, 1, 0, ""]],
    "a link that leads nowhere": [[0, "l", "x", 0o777, 1, 0, ""]],
    "no text": [[0, "f", "\ud800", 0o644, 1, len(NEW), NEW_HASH]],
}


@pytest.mark.parametrize("more", TREES.values(), ids=TREES.keys())
def test_a_tree_that_cannot_be_is_refused_whole(tmp_path: Path, more: list[Line]) -> None:
    parcel = parcel_of(tmp_path, others=("other",))
    with pytest.raises(Refused):
        bring_lines(tmp_path, [*honest_lines(parcel), *more], parcel)
    assert sorted(os.listdir(tmp_path / "project")) == ["folder", "old"], "nothing of the rest was written either"


def test_a_link_that_came_back_earlier_leads_nowhere(tmp_path: Path) -> None:
    """Links are content; a later file below one is not written through it, whatever the tree says."""
    outside = tmp_path / "outside"
    outside.mkdir()
    parcel = parcel_of(tmp_path)
    (tmp_path / "project" / "folder").rmdir()
    (tmp_path / "project" / "folder").symlink_to(outside)  # between sending and coming back
    lines = [*honest_lines(parcel), [0, "f", "folder/x", 0o644, 1, len(NEW), NEW_HASH]]
    told = bring_lines(tmp_path, lines, parcel)
    assert os.listdir(outside) == []
    assert any("folder/x" in one for one in told)


def test_set_id_bits_and_times_to_come_are_not_taken(tmp_path: Path) -> None:
    parcel = parcel_of(tmp_path)
    lines = [*honest_lines(parcel)[:-1], [0, "f", "new", 0o6777, 1 << 62, len(NEW), NEW_HASH]]
    bring_lines(tmp_path, lines, parcel)
    found = (tmp_path / "project" / "new").stat()
    assert found.st_mode & 0o7777 == 0o777
    assert found.st_mtime_ns < 1 << 61


def test_what_was_changed_here_meanwhile_stays(tmp_path: Path) -> None:
    parcel = parcel_of(tmp_path)
    (tmp_path / "project" / "old").write_text("mine, and longer")
    (tmp_path / "project" / "new").write_text("mine too")
    lines = [line for line in honest_lines(parcel) if line[2] != "old"]
    told = bring_lines(tmp_path, lines, parcel)
    assert (tmp_path / "project" / "old").read_text() == "mine, and longer"
    assert (tmp_path / "project" / "new").read_text() == "mine too"
    assert len(told) == 2


def test_an_empty_file_is_empty_whatever_was_covered(tmp_path: Path) -> None:
    """A covered file is sent as an empty one; a new empty file never becomes a copy of it."""
    source = tmp_path / "project"
    source.mkdir()
    (source / ".env").write_text("secret")
    plan = ParcelPlan(str(source), "/p", True)
    parcel = pack(plan, (), frozenset({".env"}), Memory(tmp_path / "memory", str(source)))
    assert [entry.what for entry in parcel.entries if entry.path == ".env"] == [EMPTY]
    arrived = take(tmp_path, pack_members(honest_members([[0, "f", "made", 0o644, 1, 0, EMPTY]]).values()))
    changes = compare([parcel], [frozenset({".env"})], arrived)
    assert bring([parcel], changes, arrived) == []
    assert (source / "made").read_bytes() == b""
    assert (source / ".env").read_text() == "secret"


def mode_of(path: Path) -> int:
    """Its rights."""
    return path.stat().st_mode & 0o777


def test_a_folder_gets_the_rights_that_it_has_there(tmp_path: Path) -> None:
    """Positive control of the next ones: new, known and below one another; its owner is never shut out."""
    parcel = parcel_of(tmp_path)
    known = [line for line in honest_lines(parcel) if line[2] != "folder"]
    made = [[0, "d", name, mode, 1, 0, ""] for name, mode in (("folder", 0o777), ("made", 0o500), ("made/in", 0o750))]
    assert bring_lines(tmp_path, [*known, *made], parcel) == []
    rights = [mode_of(tmp_path / "project" / name) for name in ("folder", "made", "made/in")]
    assert rights == [0o777, 0o700, 0o750]


@pytest.mark.parametrize("name", ["fresh", "folder", "old", "link"])
def test_rights_of_a_folder_are_never_set_through_a_link(tmp_path: Path, name: str) -> None:
    """Where the other machine has a folder a link lies here meanwhile: told once, and nothing behind it is changed."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    parcel = parcel_of(tmp_path)
    place = tmp_path / "project" / name
    (tmp_path / "project" / "link").symlink_to("elsewhere")
    parcel = pack(parcel.plan, (), frozenset(), Memory(tmp_path / "memory", parcel.plan.source))
    if place.is_dir():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(outside)
    others = [line for line in honest_lines(parcel) if line[2] != name]
    told = bring_lines(tmp_path, [*others, [0, "d", name, 0o777, 1, 0, ""]], parcel)
    assert mode_of(outside) == 0o700
    assert [one.partition(":")[0] for one in told] == [name]
    assert place.is_symlink()


def test_a_link_that_could_not_be_removed_gets_nobody_elses_rights(tmp_path: Path) -> None:
    """A folder that is closed here keeps its link; what the other machine made of it is told and not taken."""
    outside, closed = tmp_path / "outside", tmp_path / "project" / "folder"
    outside.mkdir(mode=0o700)
    parcel = parcel_of(tmp_path)
    (closed / "link").symlink_to(outside)
    closed.chmod(0o500)
    parcel = pack(parcel.plan, (), frozenset(), Memory(tmp_path / "memory", parcel.plan.source))
    lines = [line for line in honest_lines(parcel) if line[2] != "folder/link"]
    with ordinary_user(tmp_path):
        told = bring_lines(tmp_path, [*lines, [0, "d", "folder/link", 0o777, 1, 0, ""]], parcel)
        closed.chmod(0o700)
    assert mode_of(outside) == 0o700
    assert [one for one in told if one.startswith("folder/link: it could not be removed")] == told != []


@pytest.mark.parametrize("how", ["closed", "told"])
def test_what_lies_below_a_folder_that_was_not_seen_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A keeper that cannot list a folder says so; what it did not see is not gone, and the user is told."""
    parcel = parcel_of(tmp_path)
    (tmp_path / "project" / "folder" / "kept").write_text("kept")
    (tmp_path / "project" / "folder" / "in").mkdir()
    (tmp_path / "project" / "folder" / "in" / "deep").write_text("deep")
    parcel = pack(parcel.plan, (), frozenset(), Memory(tmp_path / "memory", parcel.plan.source))
    lines = [line for line in honest_lines(parcel) if not line[2].startswith("folder")]
    lines += [[0, "?", "folder", 0, 0, 0, ""]]
    if how == "closed":
        lines = walk_there(tmp_path, monkeypatch)
    told = bring_lines(tmp_path, lines, parcel)
    assert (tmp_path / "project" / "folder" / "kept").read_text() == "kept"
    assert (tmp_path / "project" / "folder" / "in" / "deep").read_text() == "deep"
    assert not (tmp_path / "project" / "old").exists() or how == "told", "positive control: what is gone there goes"
    assert [one.partition(":")[0] for one in told] == ["folder"]


def walk_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """The lines of a keeper's walk over a copy whose `old` was removed and whose `folder` was closed."""
    there = tmp_path / "there" / "project"
    shutil.copytree(tmp_path / "project", there)
    (there / "old").unlink()
    (tmp_path / "store").mkdir()
    monkeypatch.setattr(keeper_store, "STORE", str(tmp_path / "store"))
    with ordinary_user(tmp_path):
        (there / "folder").chmod(0)
        back = keeper_store.Back(keeper_store.Store("run"), {}, set())
        back.walk(0, str(there), set())
        back.close()
        (there / "folder").chmod(0o700)
    assert [one.partition(":")[0] for one in back.left] == ["folder"]
    return [json.loads(line) for line in (tmp_path / "store/runs/run/out/tree").read_bytes().splitlines()]
