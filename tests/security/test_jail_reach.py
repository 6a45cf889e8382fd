"""What the daemon owns cannot be reached from a jail: by path, through /proc, by socket or descriptor.

Purpose: the boundary that approvals rest on; each way is shown open on the process rung, which declares it.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kit.sandboxes import PROJECT, Rig, bystander, on_rungs, open_rig

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import Claim, SandboxError
from gloveport.sandbox.profile import Access, Mount

pytestmark = pytest.mark.asyncio(loop_scope="module")
FILES = ("token", "journal.db", "audit.jsonl", "signing.key")


@dataclass(frozen=True)
class Reach:
    """A rig and the names of its daemon's belongings."""

    rig: Rig
    data: Path
    abstract: str

    @property
    def paths(self) -> list[str]:
        """Everything below the data folder, and the folder."""
        return [str(self.data), *(str(self.data / name) for name in (*FILES, "daemon.sock"))]

    def request(self) -> dict[str, list[str]]:
        """Every way in that we know of."""
        roots = ["", "/proc/1/root", "/proc/self/root", "/proc/thread-self/root", "/proc/2/root", f"{PROJECT}/.."]
        reads = [root + path for root in roots for path in self.paths if not path.endswith(".sock")]
        reads += [f"{PROJECT}/link/{name}" for name in FILES] + ["/proc/1/cwd/data", "/proc/1/mem"]
        sockets = [f"{self.data}/daemon.sock", f"{PROJECT}/link/daemon.sock", f"@{self.abstract}"]
        return {"reads": reads, "writes": [str(self.data / "token"), str(self.data / "new")], "unix_sockets": sockets}


@contextlib.contextmanager
def furnish(data: Path) -> Iterator[str]:
    """A data folder with all that a daemon has, its socket alive; gives the name of an abstract socket."""
    data.mkdir(mode=0o700)
    for name in FILES:
        (data / name).write_text("secret")
    (data / "journal.db").unlink()
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as journal:
        journal.execute("create table event (body text)")
        journal.execute("insert into event values ('secret')")
        journal.commit()
    abstract = f"gp-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as hidden:
        server.bind(str(data / "daemon.sock"))
        server.listen(8)
        hidden.bind(f"\0{abstract}")
        hidden.listen(8)
        yield abstract


async def _reach(name: str) -> AsyncIterator[Reach]:
    async with open_rig(name, hidden=("data",)) as rig:
        with furnish(rig.folder / "data") as abstract:
            (rig.project / "link").symlink_to(rig.folder / "data")
            yield Reach(rig, rig.folder / "data", abstract)


@pytest_asyncio.fixture(params=on_rungs("bubblewrap", "docker"), scope="module", loop_scope="module")
async def jailed(request: pytest.FixtureRequest) -> AsyncIterator[Reach]:
    async for reach in _reach(request.param):
        yield reach


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare() -> AsyncIterator[Reach]:
    async for reach in _reach("process"):
        yield reach


async def test_nothing_of_the_daemon_is_reached(jailed: Reach) -> None:
    report = await jailed.rig.look(jailed.request())
    for way in ("reads", "writes", "connect_unix"):
        reached = [path for path, outcome in report[way].items() if outcome == "done"]
        assert reached == [], way
    assert (jailed.data / "token").read_text() == "secret"
    assert Claim.HIDES_DAEMON in jailed.rig.availability.holds


async def test_process_rung_reaches_it_and_says_so(bare: Reach) -> None:
    report = await bare.rig.look(bare.request())
    assert report["reads"][str(bare.data / "token")] == "done"
    assert report["reads"][str(bare.data / "journal.db")] == "done"
    assert report["connect_unix"][f"{bare.data}/daemon.sock"] == "done"
    assert report["connect_unix"][f"@{bare.abstract}"] == "done"
    assert Claim.HIDES_DAEMON in dict(bare.rig.availability.does_not_hold)
    assert "approvals" in bare.rig.backend.statement


async def test_only_three_pipes_even_when_the_daemon_leaks_descriptors(jailed: Reach) -> None:
    leak = os.open(jailed.data / "token", os.O_RDWR)
    try:
        os.set_inheritable(leak, True)
        descriptors = (await jailed.rig.look())["descriptors"]
    finally:
        os.close(leak)
    assert set(descriptors) == {"0", "1", "2"}
    assert all(target.startswith("pipe:") for target in descriptors.values())


async def test_other_processes_and_their_secrets_are_not_seen(jailed: Reach) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    with bystander({"API_KEY": canary}):
        report = await jailed.rig.look({"canaries": [canary]})
    assert report["secrets"] == []
    assert report["processes"] <= 3


async def test_process_rung_sees_secrets_of_other_processes(bare: Reach) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    with bystander({"API_KEY": canary}):
        report = await bare.rig.look({"canaries": [canary]})
    assert report["secrets"] == [canary]


async def test_read_only_mount_around_it_shows_it_empty(jailed: Reach) -> None:
    around = Mount(str(jailed.rig.folder), str(jailed.rig.folder), Access.READ_ONLY)
    source = (
        "import json, os, sys\n"
        "paths = json.load(sys.stdin)\n"
        "print(json.dumps([os.listdir(paths[0]), [os.path.lexists(path) for path in paths[1:]]]))"
    )
    result = await jailed.rig.python(source, json.dumps(jailed.paths).encode(), mounts=(around,))
    assert json.loads(result.output) == [[], [False] * (len(jailed.paths) - 1)]
    report = await jailed.rig.look(jailed.request(), mounts=(around,))
    assert [path for path, outcome in report["connect_unix"].items() if outcome == "done"] == []
    assert report["reads"][str(jailed.data / "token")] == "ENOENT"
    assert report["writes"][str(jailed.data / "new")] == "EROFS"


@pytest.mark.parametrize("access", [Access.READ_ONLY, Access.READ_WRITE])
@pytest.mark.parametrize("name", ["", "token", "daemon.sock", "journal.db"])
async def test_mount_of_it_is_refused(jailed: Reach, name: str, access: Access) -> None:
    for source in (jailed.data / name, jailed.rig.project / "link" / name):
        with pytest.raises(SandboxError) as caught:
            await jailed.rig.lease(mounts=(Mount(os.path.normpath(source), "/mnt/in", access),))
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED


async def test_writable_mount_around_it_is_refused(jailed: Reach) -> None:
    with pytest.raises(SandboxError):
        await jailed.rig.lease(mounts=(Mount(str(jailed.rig.folder), "/mnt/all", Access.READ_WRITE),))


async def test_run_folders_are_hidden_without_being_named(jailed: Reach) -> None:
    with pytest.raises(SandboxError):
        await jailed.rig.lease(mounts=(Mount(str(jailed.rig.runs_dir), "/mnt/runs", Access.READ_ONLY),))


async def test_worktree_below_it_is_shown_alone(jailed: Reach) -> None:
    """A worktree may lie in the data folder: its content is shown, its neighbours are not."""
    worktree = jailed.data / "worktrees" / "one"
    worktree.mkdir(parents=True)
    (worktree / "a.txt").write_text("mine")
    usual = jailed.rig.backend
    jailed.rig.backend = jailed.rig.open(exposed=[jailed.data / "worktrees"])
    mount = Mount(str(worktree), "/mnt/tree", Access.READ_WRITE)
    try:
        report = await jailed.rig.look({"reads": ["/mnt/tree/a.txt", *jailed.paths]}, mounts=(mount,))
        assert [path for path, outcome in report["reads"].items() if outcome == "done"] == ["/mnt/tree/a.txt"]
        with pytest.raises(SandboxError):
            await jailed.rig.lease(mounts=(Mount(str(worktree.parent), "/mnt/tree", Access.READ_ONLY),))
    finally:
        await jailed.rig.backend.close()
        jailed.rig.backend = usual
        shutil.rmtree(worktree.parent)


async def test_kernel_settings_cannot_be_written(jailed: Reach) -> None:
    """A jail of the host's root holds no capability, but these files ask for the uid alone."""
    source = (
        "import os\n"
        "for folder, folders, files in os.walk('/proc'):\n"
        "    folders[:] = [name for name in folders if not name.isdigit() and 'self' not in name]\n"
        "    for name in files:\n"
        "        try: fd = os.open(os.path.join(folder, name), os.O_WRONLY)\n"
        "        except OSError: continue\n"
        "        if os.fstat(fd).st_rdev != os.stat('/dev/null').st_rdev: print(os.path.join(folder, name))\n"
        "        os.close(fd)"
    )
    assert (await jailed.rig.python(source)).output.decode().split() == []
