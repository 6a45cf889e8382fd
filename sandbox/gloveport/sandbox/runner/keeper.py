"""The first process of a container on another machine: it is sent there as text and run by the image's Python.

Purpose: unpack what was sent, run the command as an ordinary user, keep its output, end it when its time is over or
nobody is heard, and lay ready what it changed.
Invariant: the command cannot signal, read or outlive this process; what is laid ready is complete or marked as not.
Must never: import anything but the standard library (3.9 and later), or begin before it is told to.

It reads lines and raw bytes on standard input and writes frames (`kind`, length in four bytes, body) on standard
output: "J" is a JSON object, "O" a piece of output behind its offset in eight bytes. `remote_run` is the other side.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from types import MappingProxyType
from typing import Any

from gloveport.sandbox.runner.descent import taken_by
from gloveport.sandbox.runner.keeper_store import ENTRIES_MAX, PIECE, STORE, Back, Broken, Channel, Laid, Store, empty

RING = 16 * 1024 * 1024
"""So much of the newest output can be told again after a cut."""
ACK_S = 20.0
LEFT_TOLD = 20
KILL_AGAIN_S = 0.02
LOOK_S = 0.5
LOOK_SHARE = 20
"""A look at the bounded folders costs at most this part of a core."""
BOUND = "bound "
RESUMED = b"\0gloveport resumes "
_LAST_CAPABILITY = 63
_LIMITS = MappingProxyType({"core": 4, "nofile": 7, "fsize": 1, "cpu": 0})


class Keeper:
    """The one run of this container."""

    def __init__(self, channel: Channel, head: dict[str, Any]) -> None:
        self.channel, self.head = channel, head
        self.store = Store(head["run"])
        self.laid: dict[str, Laid] = {}
        self.known: set[str] = set()
        self.ring = os.open(f"{self.store.out}/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.total = self.sent = 0
        self.frame = bytearray()
        self.status: int | None = None
        self.why = ""
        self.failed = ""
        self.end: dict[str, Any] | None = None
        self.end_told = self.released = False
        self.kill_at: float | None = None
        self.look_at = 0.0
        self.childless = False

    # --- what was sent

    def unpack(self) -> None:
        """Ask for what is missing and lay everything out."""
        parcels = self.head["parcels"]
        wanted = [index for index, parcel in enumerate(parcels) if not self._is_laid(parcel)]
        self.channel.tell({"want": wanted})
        entries: list[list[Any]] = []
        while (line := self.channel.line()) != b".":
            entries.append(json.loads(line))
            if len(entries) > ENTRIES_MAX:
                raise Broken("too many files")
        sizes = {entry[6]: entry[5] for entry in entries if entry[1] == "f"}
        missing = [digest for digest, size in sizes.items() if not self.store.holds(digest, size)]
        self.channel.tell({"missing": missing})
        self.channel.pass_mark()
        for digest in missing:
            self.store.take(digest, self.channel.pieces(sizes[digest]))
        for index in wanted:
            self._lay(parcels[index], [entry for entry in entries if entry[0] == index])

    def _mark_of(self, parcel: dict[str, Any]) -> tuple[str, str]:
        found = os.stat(parcel["at"])
        return f"{STORE}/trees/{parcel['tree']}", f"{found.st_ino} {found.st_ctime_ns}"

    def _is_laid(self, parcel: dict[str, Any]) -> bool:
        """Whether a tree that nobody writes lies in its volume already, whole."""
        if parcel["writable"]:
            return False
        path, mark = self._mark_of(parcel)
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            return file.read() == mark
        return False

    def _lay(self, parcel: dict[str, Any], entries: list[list[Any]]) -> None:
        root, owner = parcel["at"], (self.head["uid"], self.head["gid"])
        if not parcel["writable"]:
            empty(root)
        folders = []
        for _index, kind, path, mode, mtime, size, what in entries:
            place = os.path.join(root, path) if path else root
            if kind == "d":
                if path:
                    os.makedirs(place, mode=0o700, exist_ok=True)
                folders.append((place, mode, mtime))
                continue
            if kind == "l":
                os.symlink(what, place)
            else:
                self._lay_file(place, mode, mtime, size, what)
            os.chown(place, *owner, follow_symlinks=False)
            if kind == "f" and parcel["writable"]:
                found = os.lstat(place)
                self.laid[place] = (found.st_ino, found.st_ctime_ns, found.st_size, what)
                self.known.add(what)
        for place, mode, mtime in reversed(folders):
            os.chmod(place, mode)
            os.utime(place, ns=(mtime, mtime))
            os.chown(place, *owner)
        if not parcel["writable"]:
            path, mark = self._mark_of(parcel)
            with open(path, "w", encoding="ascii") as file:
                file.write(mark)

    def _lay_file(self, place: str, mode: int, mtime: int, size: int, digest: str) -> None:
        """A copy of a content, which is read through once more."""
        seen, copied = hashlib.sha256(), 0
        with open(self.store.path(digest), "rb") as source, open(place, "xb") as file:
            while piece := source.read(PIECE):
                seen.update(piece)
                copied += file.write(piece)
            os.fchmod(file.fileno(), mode)
        if (seen.hexdigest(), copied) != (digest, size):
            os.unlink(self.store.path(digest))
            raise Broken("a kept content is not what its name says")
        os.utime(place, ns=(mtime, mtime))

    # --- the command

    def start(self) -> None:
        """Fork the command; what keeps it from starting is told."""
        stdin_read, self.stdin = os.pipe()
        self.output, output_write = os.pipe()
        reason_read, reason_write = os.pipe()
        self.main = os.fork()
        if self.main == 0:
            self._become(stdin_read, output_write, reason_write)
        for fd in (stdin_read, output_write, reason_write):
            os.close(fd)
        with os.fdopen(reason_read, "rb") as file:
            self.failed = file.read(PIECE).decode("utf-8", "replace")
        for fd in (self.stdin, self.output, 1):
            os.set_blocking(fd, False)
        self.feed = memoryview(base64.b64decode(self.head["stdin"]))
        self.began = time.monotonic()

    def _become(self, stdin: int, output: int, reason: int) -> None:
        """In the child: never returns."""
        step = "prepare"
        try:
            os.setsid()
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")
            for number in range(1, signal.NSIG):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
            for target, fd in ((0, stdin), (1, output), (2, output)):
                os.dup2(fd, target)
            high = 200
            os.dup2(reason, high, inheritable=False)
            os.closerange(3, high)
            os.closerange(high + 1, 65536)
            reason = high
            step = "give up rights"
            self._give_up_rights()
            os.umask(0o022)
            step = f"enter {self.head['working_dir']}"
            os.chdir(self.head["working_dir"])
            step = f"start {self.head['argv'][0]}"
            os.execvpe(self.head["argv"][0], self.head["argv"], dict(self.head["environment"]))  # noqa: S606 - the keeper's trade
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            os.write(reason, f"{step}: {words}".encode())
        finally:
            os._exit(127)

    def _give_up_rights(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        for name, value in self.head["limits"].items():
            resource.setrlimit(_LIMITS[name], (value, value))
        for capability in range(_LAST_CAPABILITY + 1):
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
        os.setgroups([])
        os.setresgid(self.head["gid"], self.head["gid"], self.head["gid"])
        os.setresuid(self.head["uid"], self.head["uid"], self.head["uid"])
        if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
            raise OSError(ctypes.get_errno(), "no new privileges")

    # --- while it runs

    def serve(self) -> None:
        """Until the end was told and taken, or nobody is there."""
        wake, wake_write = os.pipe()
        for fd in (wake, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self.reap()
        while not self.is_over():
            reads = [wake] + [0] * self.channel.is_open + [self.output] * (self.output >= 0)
            writes = [1] * self.has_words() + [self.stdin] * (self.stdin >= 0)
            ready, room, _ = select.select(reads, writes, [], 0.05 if self.kill_at else 0.5)
            if wake in ready:
                os.read(wake, PIECE)
            if 0 in ready:
                self.channel.fill()
                self.obey()
            if self.output in ready:
                self.keep_output()
            if self.stdin in room:
                self.feed_stdin()
            if 1 in room:
                self.send()
            self.reap()
            self.hold_limits()
            if self.status is not None and self.childless and self.output < 0 and self.end is None:
                self.conclude()

    def is_over(self) -> bool:
        """The end is known here, and taken or of no interest to anybody."""
        if self.end is None:
            return False
        gone = time.monotonic() - max(self.channel.heard, self.ended)
        return self.released or gone > max(ACK_S, self.channel.away_s)

    def obey(self) -> None:
        """Each whole line; an empty one is a sign of life, a broken one was cut off."""
        while (end := self.channel.held.find(b"\n")) >= 0:
            line = bytes(self.channel.held[:end])
            del self.channel.held[: end + 1]
            try:
                word = json.loads(line) if line else {}
                what = word.get("do", "")
            except (ValueError, AttributeError):
                continue
            if what == "term":
                self.ask(signal.SIGTERM)
            elif what == "kill":
                self.kill_at = time.monotonic()
            elif what == "bye":
                self.released = True
            elif what == "resume":
                self.resume(int(word["from"]), str(word["token"]))

    def resume(self, offset: int, token: str) -> None:
        """Somebody is back: the mark, what they know already, and output from where they are."""
        self.frame = bytearray(RESUMED + token.encode() + b"\n")
        self.sent = min(offset, self.total)
        self.end_told = False
        self.say({"failed": self.failed} if self.failed else {"began": True})

    def say(self, word: Any) -> None:
        """A JSON frame, when there is room."""
        body = json.dumps(word).encode()
        self.frame += b"J" + struct.pack(">I", len(body)) + body

    def has_words(self) -> bool:
        """Whether there is anything to be sent."""
        return bool(self.frame) or self.sent < self.total or (self.end is not None and not self.end_told)

    def send(self) -> None:
        """The rest of a frame, else the next piece of output, else the end."""
        if not self.frame and self.sent < self.total:
            self.sent = max(self.sent, self.total - RING)
            piece = self.read_ring(self.sent, min(PIECE, self.total - self.sent))
            self.frame += b"O" + struct.pack(">IQ", len(piece) + 8, self.sent) + piece
            self.sent += len(piece)
        elif not self.frame and self.end is not None and not self.end_told:
            self.end_told = True
            self.say({"end": self.end})
        with contextlib.suppress(BlockingIOError):
            del self.frame[: os.write(1, self.frame[:PIECE])]

    def read_ring(self, start: int, size: int) -> bytes:
        """Output from its offset on, as far as the ring goes on."""
        at = start % RING
        return os.pread(self.ring, min(size, RING - at), at)

    def keep_output(self) -> None:
        """Take one piece of the command's output."""
        try:
            piece = os.read(self.output, PIECE)
        except BlockingIOError:
            return
        if not piece:
            os.close(self.output)
            self.output = -1
            return
        while piece:
            at = self.total % RING
            wrote = os.pwrite(self.ring, piece[: RING - at], at)
            self.total += wrote
            piece = piece[wrote:]

    def feed_stdin(self) -> None:
        """The command's own input."""
        with contextlib.suppress(BlockingIOError):
            try:
                self.feed = self.feed[os.write(self.stdin, self.feed[:PIECE]) :] if self.feed else self.feed
            except BrokenPipeError:
                self.feed = self.feed[:0]
            if not self.feed:
                os.close(self.stdin)
                self.stdin = -1

    def reap(self) -> None:
        """Every process of the container is a child of this one in the end."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    self.childless = False
                    return
                if pid == self.main:
                    self.status = os.waitstatus_to_exitcode(status)
                    self.kill_at = time.monotonic()
        except ChildProcessError:
            self.childless = True

    def hold_limits(self) -> None:
        """The run's own end, which needs nobody."""
        now = time.monotonic()
        self.look_at_bounds(now)
        if self.status is None and not self.why:
            if now - self.began > self.head["deadline_s"]:
                self.why = "deadline"
            elif now - self.channel.heard > self.channel.away_s:
                self.why = "nobody"
            if self.why:
                self.ask(signal.SIGTERM)
                self.kill_at = now + self.head["grace_s"]
        if self.kill_at is not None and now >= self.kill_at and not self.childless:
            self.ask(signal.SIGKILL)
            self.kill_at = now + KILL_AGAIN_S

    def look_at_bounds(self, now: float) -> None:
        """End the run at once when a folder takes more than it may."""
        if now < self.look_at or self.status is not None or self.why:
            return
        for index, folder, bytes_max, files_max in self.head["bounds"]:
            if taken_by(folder, bytes_max, files_max):
                self.why, self.kill_at = f"{BOUND}{index}", now
        self.look_at = now + max(LOOK_S, LOOK_SHARE * (time.monotonic() - now))

    def ask(self, number: int) -> None:
        """A signal to every process but this one."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)

    # --- what comes back

    def conclude(self) -> None:
        """Lay ready what was changed, and write the end."""
        self.kill_at = None
        back = Back(self.store, self.laid, self.known)
        for index, parcel in enumerate(self.head["parcels"]):
            if parcel["writable"]:
                back.walk(index, parcel["at"], set(parcel["others"]))
        tree, digest = back.close()
        end = {
            "marker": self.head["marker"], "status": self.status, "why": self.why, "output": self.total,
            "entries": tree, "tree": digest, "left": back.left[:LEFT_TOLD], "left_count": len(back.left),
            "failed": self.failed, "whole": back.whole,
        }  # fmt: skip
        with open(f"{self.store.out}/end.json", "w", encoding="utf-8") as file:
            json.dump(end, file)
            file.flush()
            os.fsync(file.fileno())
        self.ended = time.monotonic()
        self.end = end


def main() -> None:
    """The whole life of the container."""
    os.umask(0o077)
    channel = Channel(float(sys.argv[1]))
    try:
        keeper = Keeper(channel, json.loads(channel.line()))
        keeper.store.shrink()
        keeper.unpack()
        channel.tell({"ready": True})
        while json.loads(channel.line()).get("do") != "go":
            pass
    except (Broken, OSError, ValueError, KeyError) as error:
        with contextlib.suppress(OSError):
            channel.tell({"broken": str(error) or type(error).__name__})
        return
    keeper.start()
    keeper.say({"failed": keeper.failed} if keeper.failed else {"began": True})
    keeper.serve()


if __name__ == "__main__":
    main()
