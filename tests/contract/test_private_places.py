"""Where the daemon lives: one rule for the places, and nobody else gets in."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from tests.kit.memory_backend import Held
from tests.kit.require import require

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.client.paths import SOCKET_BYTES_MAX, find_places
from gloveport.server.client.private import check_private_dir, make_private_dir, open_socket, read_token
from gloveport.server.journal.lease import DataLease
from gloveport.server.policy.protected import path_classes
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.transports.lsp.socketfile import bind_socket, write_token


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder with a short path."""
    path = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    yield path
    rmtree(path)


def refused(code: ErrorCode, told: pytest.ExceptionInfo[GloveportError]) -> None:
    """The refusal has this code and says what to do."""
    assert told.value.code is code
    assert told.value.hint


def test_places_follow_the_environment() -> None:
    """GLOVEPORT_HOME, then the state directory, then the home folder."""
    assert find_places({"GLOVEPORT_HOME": "/h", "XDG_STATE_HOME": "/s"}).data_dir == Path("/h")
    assert find_places({"XDG_STATE_HOME": "/s", "HOME": "/u"}).data_dir == Path("/s/gloveport")
    assert find_places({"XDG_STATE_HOME": "not/absolute", "HOME": "/u"}).data_dir == Path("/u/.local/state/gloveport")
    assert find_places({"GLOVEPORT_HOME": "/h", "XDG_CONFIG_HOME": "/c"}).config_dir == Path("/h")
    assert find_places({"XDG_CONFIG_HOME": "/c", "HOME": "/u"}).config_dir == Path("/c/gloveport")
    places = find_places({"HOME": "/u"})
    assert places.config_dir == Path("/u/.config/gloveport")
    assert {places.socket.parent, places.token.parent, places.log.parent} == {places.data_dir}
    assert places.mark is not None
    assert places.own_folders == (places.data_dir, places.config_dir, places.mark.parent)
    assert all(path_classes(str(one.relative_to("/u") / "x")) == {PathClass.never} for one in places.own_folders)
    assert find_places({"GLOVEPORT_HOME": "/h"}).own_folders == (Path("/h"), Path("/h"))


def test_a_long_path_moves_the_socket_into_the_runtime_folder_or_is_refused() -> None:
    """The limit of the smallest system holds everywhere; no shared folder is fallen back to."""
    long = "/" + "x" * SOCKET_BYTES_MAX
    places = find_places({"GLOVEPORT_HOME": long, "XDG_RUNTIME_DIR": "/run/user/1"})
    assert places.data_dir == Path(long)
    assert places.socket.parent.parent == Path("/run/user/1")
    other = find_places({"GLOVEPORT_HOME": long + "y", "XDG_RUNTIME_DIR": "/run/user/1"})
    assert other.socket != places.socket
    with pytest.raises(GloveportError) as told:
        find_places({"GLOVEPORT_HOME": long})
    refused(ErrorCode.UNSAFE_DIRECTORY, told)
    edge = "/" + "x" * (SOCKET_BYTES_MAX - len("/daemon.sock") - 1)
    assert len(os.fsencode(find_places({"GLOVEPORT_HOME": edge}).socket)) == SOCKET_BYTES_MAX


def test_socket_and_token_are_this_users_alone(folder: Path) -> None:
    """H01: no port; directory 0700, socket and token 0600."""
    home = folder / "a" / "b"
    file = bind_socket(home / "daemon.sock", Held())
    try:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert file.listener.family == socket.AF_UNIX
    finally:
        file.close()
    assert not file.path.exists()
    token = write_token(home / "decision.token")
    assert stat.S_IMODE((home / "decision.token").stat().st_mode) == 0o600
    assert read_token(home / "decision.token") == token
    assert write_token(home / "decision.token") != token
    assert sorted(path.name for path in home.iterdir()) == ["decision.token"]


def test_only_the_owner_of_the_lease_replaces_a_stale_socket(folder: Path) -> None:
    """A socket left by a crash is in nobody's way; one that is served is not taken from its daemon."""
    path = folder / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with DataLease.acquire(folder) as lease:
        first = bind_socket(path, lease)
    with pytest.raises(GloveportError) as told:
        bind_socket(path, lease)
    refused(ErrorCode.LEASE_HELD, told)
    open_socket(path).close()
    second = bind_socket(path, Held())
    first.close()
    assert path.exists(), "the later daemon's socket was removed by the earlier one"
    second.close()
    assert not path.exists()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_what_is_no_socket_is_never_replaced(folder: Path, kind: str) -> None:
    """A file, a link or a folder in the socket's place is an error and stays."""
    path, victim = folder / "daemon.sock", folder / "victim"
    victim.write_text("mine")
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(victim)
    else:
        path.mkdir()
    with pytest.raises(GloveportError) as told:
        bind_socket(path, Held())
    refused(ErrorCode.UNSAFE_DIRECTORY, told)
    assert victim.read_text() == "mine"
    assert os.path.lexists(path)


def test_folders_open_to_others_and_links_are_refused(folder: Path) -> None:
    """By daemon and client alike."""
    wide, link = folder / "wide", folder / "link"
    wide.mkdir()
    os.chmod(wide, 0o750)
    (folder / "real").mkdir(mode=0o700)
    link.symlink_to(folder / "real")
    for path in (wide, link):
        with pytest.raises(GloveportError) as told:
            bind_socket(path / "daemon.sock", Held())
        refused(ErrorCode.UNSAFE_DIRECTORY, told)
        with pytest.raises(GloveportError) as told:
            make_private_dir(path)
        refused(ErrorCode.UNSAFE_DIRECTORY, told)
    check_private_dir(folder / "real")
    with pytest.raises(GloveportError) as told:
        bind_socket(folder / ("x" * SOCKET_BYTES_MAX), Held())
    refused(ErrorCode.UNSAFE_DIRECTORY, told)


def test_a_token_that_others_could_have_planted_is_not_sent(folder: Path) -> None:
    """Mode, link and absence."""
    path = folder / "decision.token"
    assert read_token(path) is None
    path.write_text("planted")
    os.chmod(path, 0o644)
    with pytest.raises(GloveportError) as told:
        read_token(path)
    refused(ErrorCode.UNSAFE_DIRECTORY, told)
    (folder / "link").symlink_to(path)
    with pytest.raises(OSError):
        read_token(folder / "link")


def test_another_users_socket_gets_no_key(folder: Path) -> None:
    """The directory's owner and the socket's owner are looked at before anything is sent."""
    require(os.geteuid() == 0, "needs root to give a file to another user")
    path = folder / "daemon.sock"
    file = bind_socket(path, Held())
    try:
        os.chown(path, 12345, -1, follow_symlinks=False)
        with pytest.raises(GloveportError) as told:
            open_socket(path)
        refused(ErrorCode.UNSAFE_DIRECTORY, told)
        os.chown(path, 0, -1, follow_symlinks=False)
        os.chown(folder, 12345, -1)
        with pytest.raises(GloveportError) as told:
            open_socket(path)
        refused(ErrorCode.UNSAFE_DIRECTORY, told)
    finally:
        os.chown(folder, 0, -1)
        file.close()
