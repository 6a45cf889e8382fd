"""From system calls to a disk.

Purpose: follow descriptors, positions and working folders of every recorded process, and do to a `Disk` what the
calls did to the real one.
Invariant: a call that failed changes nothing; what a path meant is judged by where the call began.
Must never: guess a position: a write without an offset goes where the open file stood.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.kit.power.disk import Disk, Inode
from tests.kit.power.strace import Call, Ended

CALLS: Final = (
    "open openat openat2 creat close write pwrite64 writev pwritev pwritev2 lseek ftruncate truncate fallocate fsync"
    " fdatasync sync_file_range syncfs sync rename renameat renameat2 link linkat unlink unlinkat rmdir mkdir mkdirat"
    " symlink symlinkat mknod mknodat chmod fchmod fchmodat dup dup2 dup3 fcntl clone clone3 fork vfork chdir fchdir"
    " bind mmap copy_file_range sendfile splice sendto sendmsg recvfrom recvmsg execve mount pivot_root unshare setns"
).split()
_CREATE: Final = "O_CREAT"


@dataclass(slots=True)
class OpenFile:
    """An open file description."""

    inode: Inode
    position: int = 0
    appends: bool = False


@dataclass(slots=True)
class Process:
    """Descriptors, working folder and view of the files; threads share one object."""

    files: dict[int, OpenFile] = field(default_factory=dict)
    folder: str = "/"
    mounts: list[tuple[str, str]] | None = None
    """In a jail: what is shown where, as (path inside, path outside); None where paths are the machine's own."""

    def copy(self) -> "Process":
        """What a forked child begins with."""
        return Process(dict(self.files), self.folder, None if self.mounts is None else list(self.mounts))

    def outside(self, path: str) -> str:
        """The machine's own path; empty for what lies nowhere on its disk."""
        if self.mounts is None:
            return path
        if path.startswith("/oldroot/"):
            return path.removeprefix("/oldroot")
        fitting = [pair for pair in self.mounts if path == pair[0] or path.startswith(pair[0] + "/")]
        if not fitting:
            return ""
        inside, real = max(fitting, key=lambda pair: len(pair[0]))
        return real + path[len(inside) :]


@dataclass(frozen=True, slots=True)
class Step:
    """One call that changed the disk, made something durable or left the machine; the cut points."""

    at: int
    pid: int
    verb: str
    path: str
    source: str = ""
    """Of a rename: the name before."""


class Replayer:
    """Feeds calls to a disk; `steps` are what happened, in order."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self.disk = disk
        self.steps: list[Step] = []
        self.mapped: set[str] = set()
        self._folder = folder
        self._processes: dict[int, Process] = {}
        self._children: dict[int, tuple[int, bool, bool]] = {}
        self._verbs: dict[str, Callable[[Call, Process], None]] = {
            name: getattr(self, f"_do_{name}") for name in CALLS if hasattr(self, f"_do_{name}")
        }

    def run(self, calls: Iterable[Call | Ended]) -> None:
        """Follow one recording from its beginning to its end."""
        listed = list(calls)
        self._processes = {}
        for call in listed:
            if isinstance(call, Call) and call.name in ("clone", "clone3", "fork", "vfork") and call.succeeded:
                words = " ".join(call.words)
                self._children[call.child] = (call.pid, "CLONE_FILES" in words, "CLONE_NEWNS" in words)
        for call in listed:
            if isinstance(call, Ended):
                self._processes.pop(call.pid, None)
                self._children.pop(call.pid, None)
            elif call.succeeded and (verb := self._verbs.get(call.name)) is not None:
                verb(call, self._process(call.pid))
            elif call.succeeded:
                self._process(call.pid)

    def _process(self, pid: int) -> Process:
        known = self._processes.get(pid)
        if known is None:
            parent, shares, jailed = self._children.get(pid, (0, False, False))
            begun = self._processes.get(parent) or Process(folder=self._folder)
            known = self._processes[pid] = begun if shares else begun.copy()
            if jailed:
                known.mounts = []
        return known

    def _note(self, call: Call, verb: str, path: str) -> None:
        self.steps.append(Step(call.ended, call.pid, verb, path))

    # Names

    def _at(self, call: Call, process: Process, index: int, string: int) -> str:
        """The path of a pair of arguments: descriptor of a folder, name."""
        base = call.descriptor(index).path or process.folder
        return process.outside(os.path.normpath(os.path.join(base, os.fsdecode(call.strings[string]))))

    def _plain(self, call: Call, process: Process, string: int) -> str:
        return process.outside(os.path.normpath(os.path.join(process.folder, os.fsdecode(call.strings[string]))))

    def _opened(self, call: Call, process: Process, path: str, flags: str) -> None:
        real = process.outside(call.result_path)
        path = real if self.disk.holds(real) else path
        if not self.disk.holds(path) or call.result is None:
            process.files.pop(call.result or -1, None)
            return
        inode = self.disk.find(path)
        if inode is None and (_CREATE in flags or "O_TMPFILE" in flags):
            words = call.words[-1]
            mode = _masked(words)
            inode = self.disk.make(path, "file", mode, call.ended)
            self._note(call, "make", path)
        elif inode is not None and "O_TRUNC" in flags and inode.kind == "file" and inode.size:
            self.disk.resize(inode, call.ended, 0)
            self._note(call, "cut", path)
        if inode is not None:
            process.files[call.result] = OpenFile(inode, 0, "O_APPEND" in flags)

    def _do_open(self, call: Call, process: Process) -> None:
        self._opened(call, process, self._plain(call, process, 0), call.words[1])

    def _do_creat(self, call: Call, process: Process) -> None:
        self._opened(call, process, self._plain(call, process, 0), "O_CREAT|O_TRUNC")

    def _do_openat(self, call: Call, process: Process) -> None:
        self._opened(call, process, self._at(call, process, 0, 0), call.words[2])

    def _do_openat2(self, call: Call, process: Process) -> None:
        self._opened(call, process, self._at(call, process, 0, 0), call.words[2])

    def _named(self, call: Call, path: str, verb: str, change: Callable[[str], object]) -> None:
        if self.disk.holds(path):
            change(path)
            self._note(call, verb, path)

    def _do_mkdir(self, call: Call, process: Process) -> None:
        path = self._plain(call, process, 0)
        mode = _masked(call.words[-1])
        self._named(call, path, "mkdir", lambda p: self.disk.make(p, "folder", mode, call.ended))

    def _do_mkdirat(self, call: Call, process: Process) -> None:
        path = self._at(call, process, 0, 0)
        mode = _masked(call.words[-1])
        self._named(call, path, "mkdir", lambda p: self.disk.make(p, "folder", mode, call.ended))

    def _do_symlink(self, call: Call, process: Process) -> None:
        path, target = self._plain(call, process, 1), call.strings[0]
        self._named(call, path, "symlink", lambda p: self.disk.make(p, "link", 0o777, call.ended, target))

    def _do_symlinkat(self, call: Call, process: Process) -> None:
        path, target = self._at(call, process, 1, 1), call.strings[0]
        self._named(call, path, "symlink", lambda p: self.disk.make(p, "link", 0o777, call.ended, target))

    def _do_bind(self, call: Call, process: Process) -> None:
        if "AF_UNIX" in call.words[1] and call.strings:
            path = self._plain(call, process, 0)
            self._named(call, path, "bind", lambda p: self.disk.make(p, "socket", 0o700, call.ended))

    def _do_unlink(self, call: Call, process: Process) -> None:
        path = self._plain(call, process, 0)
        self._named(call, path, "unlink", lambda p: self.disk.remove(p, call.ended))

    def _do_unlinkat(self, call: Call, process: Process) -> None:
        path = self._at(call, process, 0, 0)
        self._named(call, path, "unlink", lambda p: self.disk.remove(p, call.ended))

    _do_rmdir = _do_unlink

    def _moved(self, call: Call, old: str, new: str, flags: str = "") -> None:
        if self.disk.holds(old) and self.disk.holds(new):
            self.disk.rename(old, new, call.ended, exchange="EXCHANGE" in flags)
            verb = "exchange" if "EXCHANGE" in flags else "rename"
            self.steps.append(Step(call.ended, call.pid, verb, new, old))
        elif self.disk.holds(old) or self.disk.holds(new):
            self.disk.strange.append(f"{call.ended}: rename across the border: {old} {new}")

    def _do_rename(self, call: Call, process: Process) -> None:
        self._moved(call, self._plain(call, process, 0), self._plain(call, process, 1))

    def _do_renameat(self, call: Call, process: Process) -> None:
        self._moved(call, self._at(call, process, 0, 0), self._at(call, process, 2, 1))

    def _do_renameat2(self, call: Call, process: Process) -> None:
        self._moved(call, self._at(call, process, 0, 0), self._at(call, process, 2, 1), call.words[4])

    def _linked(self, call: Call, old: str, new: str) -> None:
        if self.disk.holds(old) and self.disk.holds(new):
            self.disk.link(old, new, call.ended)
            self._note(call, "link", new)

    def _do_link(self, call: Call, process: Process) -> None:
        self._linked(call, self._plain(call, process, 0), self._plain(call, process, 1))

    def _do_linkat(self, call: Call, process: Process) -> None:
        self._linked(call, self._at(call, process, 0, 0), self._at(call, process, 2, 1))

    def _do_chdir(self, call: Call, process: Process) -> None:
        process.folder = os.path.normpath(os.path.join(process.folder, os.fsdecode(call.strings[0])))

    def _do_fchdir(self, call: Call, process: Process) -> None:
        process.folder = call.descriptor(0).path

    def _do_mount(self, call: Call, process: Process) -> None:
        """bubblewrap shows `/oldroot/...` at `/newroot/...`, then makes the latter its root."""
        source, target = (os.fsdecode(text) for text in (*call.strings, b"", b"")[:2])
        if source.startswith("/oldroot/") and target.startswith("/newroot/") and process.mounts is not None:
            process.mounts.append((target.removeprefix("/newroot"), source.removeprefix("/oldroot")))

    def _mode(self, path: str, word: str) -> None:
        inode = self.disk.find(path) if self.disk.holds(path) else None
        if inode is not None:
            inode.mode = int(word, 8)

    def _do_chmod(self, call: Call, process: Process) -> None:
        self._mode(self._plain(call, process, 0), call.words[1])

    def _do_fchmod(self, call: Call, process: Process) -> None:
        found = process.files.get(call.descriptor(0).number)
        if found is not None:
            found.inode.mode = int(call.words[1], 8)

    def _do_fchmodat(self, call: Call, process: Process) -> None:
        self._mode(self._at(call, process, 0, 0), call.words[2])

    # Descriptors

    def _do_close(self, call: Call, process: Process) -> None:
        process.files.pop(call.descriptor(0).number, None)

    def _duplicate(self, call: Call, process: Process) -> None:
        found = process.files.get(call.descriptor(0).number)
        if found is not None and call.result is not None:
            process.files[call.result] = found
        else:
            process.files.pop(call.result or -1, None)

    _do_dup = _do_dup2 = _do_dup3 = _duplicate

    def _do_fcntl(self, call: Call, process: Process) -> None:
        if call.words[1].startswith("F_DUPFD"):
            self._duplicate(call, process)

    def _do_lseek(self, call: Call, process: Process) -> None:
        found = process.files.get(call.descriptor(0).number)
        if found is not None and call.result is not None:
            found.position = call.result

    def _do_mmap(self, call: Call, process: Process) -> None:
        found = process.files.get(descriptor_number(call.words[4]))
        if found is not None and "MAP_SHARED" in call.words[3] and "PROT_WRITE" in call.words[2]:
            self.mapped.add(call.descriptor(4).path)

    # Bytes

    def _file(self, call: Call, process: Process) -> OpenFile | None:
        """The open file behind a descriptor; none when its path says that the number has been given anew."""
        named = call.descriptor(0)
        known = process.files.get(named.number)
        if named.path and not self.disk.holds(process.outside(named.path)):
            return None
        return known

    def _put(self, call: Call, process: Process, offset: int | None) -> None:
        found = self._file(call, process)
        if found is None or found.inode.kind != "file" or call.result is None:
            return
        data = b"".join(call.strings)[: call.result]
        if offset is None:
            offset = found.inode.size if found.appends else found.position
            found.position = offset + len(data)
        self.disk.write(found.inode, call.ended, offset, data)
        self._note(call, "write", process.outside(call.descriptor(0).path))

    def _do_write(self, call: Call, process: Process) -> None:
        self._put(call, process, None)

    def _do_writev(self, call: Call, process: Process) -> None:
        self._put(call, process, None)

    def _do_pwrite64(self, call: Call, process: Process) -> None:
        self._put(call, process, int(call.words[3]))

    def _do_pwritev(self, call: Call, process: Process) -> None:
        self._put(call, process, int(call.words[3]))

    def _do_ftruncate(self, call: Call, process: Process) -> None:
        found = self._file(call, process)
        if found is not None:
            self.disk.resize(found.inode, call.ended, int(call.words[1], 0))
            self._note(call, "cut", process.outside(call.descriptor(0).path))

    def _do_fallocate(self, call: Call, process: Process) -> None:
        found = self._file(call, process)
        if found is not None:
            wanted = int(call.words[2], 0) + int(call.words[3], 0)
            self.disk.resize(found.inode, call.ended, max(found.inode.size, wanted))
            self._note(call, "reserve", call.descriptor(0).path)

    def _do_fsync(self, call: Call, process: Process) -> None:
        found = self._file(call, process)
        if found is not None:
            self.disk.sync(found.inode, call.began, call.ended)
            self._note(call, "sync", call.descriptor(0).path)

    _do_fdatasync = _do_fsync

    def _do_sync(self, call: Call, process: Process) -> None:
        self.disk.sync_all(call.began, call.ended)

    def _do_syncfs(self, call: Call, process: Process) -> None:
        self.disk.sync_all(call.began, call.ended)

    def _refuse(self, call: Call, process: Process) -> None:
        if any(number in process.files for number in _numbers(call)):
            self.disk.strange.append(f"{call.ended}: {call.name} into the folder is not modelled")

    _do_copy_file_range = _do_sendfile = _do_splice = _do_truncate = _do_pwritev2 = _refuse


def _masked(word: str) -> int:
    """A mode as it comes out under the daemon's mask."""
    return int(word, 8) & 0o700 if word.startswith("0") else 0o600


def descriptor_number(word: str) -> int:
    """The number of a descriptor argument."""
    digits = word.partition("<")[0]
    return int(digits) if digits.lstrip("-").isdigit() else -1


def _numbers(call: Call) -> list[int]:
    return [descriptor_number(word) for word in call.words]
