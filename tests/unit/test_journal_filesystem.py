"""Which places are no place for a journal, as the system itself names them."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal import filesystem
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.filesystem import (
    REFUSED_MAGICS,
    filesystem_magic,
    prepare_directory,
    refuse_network_filesystem,
    try_locks,
)

PROC = 0x9FA0
"""f_type of /proc, for whoever wants to see that statfs is really asked."""


def test_the_system_is_asked(tmp_path: Path) -> None:
    """Two file systems that every Linux has give their own numbers; one that is not there gives none."""
    assert filesystem_magic(Path("/proc")) == PROC
    assert filesystem_magic(tmp_path) not in (None, PROC)
    assert filesystem_magic(tmp_path / "none") is None


@pytest.mark.parametrize("name", ["NFS", "9p", "SMB2", "CIFS", "WSL 1"])
def test_d05_network_file_systems_are_refused_by_name(name: str) -> None:
    """Typed, with what to do."""
    (magic,) = (number for number, known in REFUSED_MAGICS.items() if known == name)
    with pytest.raises(JournalError, match=name) as caught:
        refuse_network_filesystem(magic)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FS
    assert "local file system" in caught.value.hint


def test_d05_a_refused_place_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system names a network file system, no file is made."""
    monkeypatch.setattr(filesystem, "filesystem_magic", lambda _directory: 0x01021997)
    with pytest.raises(JournalError, match="9p"):
        prepare_directory(tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_d05_locks_that_are_not_there_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The kernel's own refusals of a lock, by a real try."""

    def refuse(*_values: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(JournalError) as caught:
        try_locks(tmp_path)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FS
    assert list(tmp_path.iterdir()) == []


def test_d05_locks_that_do_not_exclude_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that grants every lock is worse than one that grants none."""
    monkeypatch.setattr(fcntl, "fcntl", lambda *_values: b"")
    with pytest.raises(JournalError, match="do not exclude"):
        try_locks(tmp_path)
    monkeypatch.undo()
    try_locks(tmp_path)
