"""The life of one run in a container on another machine.

Purpose: what a supervisor does for a container here, done over a way that may be cut: send the folders, follow, hold
limits, find the run again, take back what it changed, write down how it ended.
Invariant: the command begins after everything arrived; a run whose end cannot be known is told as lost, with why; what
comes back is written only when all of it was checked here.
Must never: take the other machine's word for a hash, or for more than a claim of how the command ended.
"""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.jail.replies import TAMPERED, ExitKind, RunExit, RunState
from gloveport.protocol.jail.requests import EnginePlan, RemotePlan, RunRequest
from gloveport.sandbox.runner.bounds import Bounds
from gloveport.sandbox.runner.coming_back import Arrived, Joined, Refused, Tampered, bring, compare, receive
from gloveport.sandbox.runner.engine_api import GONE, EngineError, EngineSocket
from gloveport.sandbox.runner.engine_run import EngineWatch
from gloveport.sandbox.runner.keeper import BOUND
from gloveport.sandbox.runner.keeper_store import MARK, STORE
from gloveport.sandbox.runner.link import Link, stands
from gloveport.sandbox.runner.remote_cargo import Cargo, remove_far
from gloveport.sandbox.runner.remote_channel import FarStream, Frame, make_token
from gloveport.sandbox.runner.run import STOPPED, Run
from gloveport.sandbox.runner.spool import CHUNK_BYTES
from gloveport.sandbox.runner.verdict import Ending

BEGIN_TRIES: Final = 3
SHIP_S: Final = 900.0
"""How long sending a run's folders may take."""
PATIENCE_S: Final = 20.0
"""How much longer than the keeper waits for us we look for its run."""
TRY_AGAIN_S: Final = 0.5
TAKES_MAX: Final = 2
"""How often results are taken that came whole by their transport and broken by their content."""
BACK: Final = "back"
_FAILURES: Final = (OSError, EngineError, KeyError, TypeError, ValueError)


class _Stopped(Exception):  # noqa: N818 - an outcome
    """The daemon asked for the end while the folders were sent."""


class RemoteRun(Run):
    """Mutable state of a run on another machine."""

    def __init__(self, folder: Path, request: RunRequest, plan: EnginePlan, remote: RemotePlan, wake_fd: int) -> None:
        super().__init__(folder, request, wake_fd)
        self._plan, self._remote = plan, remote
        self._path = f"/containers/{plan.name}"
        self._link = Link(remote.link)
        self._engine = EngineSocket(plan.address)
        self._watch = EngineWatch(request, self._engine, plan.name)
        self.watchdog = self._watch
        self.bounds = Bounds(())  # it is the keeper that looks: here nothing changes before the end
        self._marker = make_token()
        self._cargo = Cargo(request, plan, remote)
        self._stream: FarStream | None = None
        self._heard: list[Frame] = []
        self._tries = 0
        self._told_go = False
        self._told_end: dict[str, Any] | None = None
        self._arrived: Arrived | None = None
        self._away_since: float | None = None
        self._try_at = 0.0
        self._lost = ""
        self._failed = ""
        self._gone = False
        self._cuts = 0
        self._missed = 0

    # --- the whole life

    def perform(self) -> RunExit | None:
        """Run to the end and describe it."""
        self.signals = self._take_signals()
        self._write_status(RunState.RUNNING)
        failure = None
        try:
            self._cargo.pack(self._check_stop)
            self._begin_once_more()
        except _Stopped:
            self.ending = Ending(ExitKind.KILLED, STOPPED)
        except _FAILURES as error:
            failure = f"never started: {error}"
        kills = 0
        if failure is None and self.ending is None:
            self.began = self.last_output = time.monotonic()
            self._loop()
            self._fetch()
            kills = self._conclude()
            self._bring_back()
            self._drop_archives()
            if self._failed:
                failure = f"never started: {self._failed}"
        self.childless = True
        if self._lost and not kills:
            return self._describe_lost()
        if kills and self._arrived is None:
            self.watchdog.alarms.append("what the run had changed did not come back")
        return self._describe(failure, kills, None)

    def _describe_lost(self) -> RunExit:
        end = self._describe(None, 0, None)
        return RunExit(
            ExitKind.LOST, None, None, self._lost, end.wall_s, end.cpu_s, end.memory_peak_bytes,
            end.output_bytes_total, (), end.alarms, end.dump,
        )  # fmt: skip

    # --- before it runs

    def _begin_once_more(self) -> None:
        """Begin; where the way was cut before the word to start was given, nothing was begun, and all is made anew."""
        until = time.monotonic() + SHIP_S
        while True:
            self._tries += 1
            try:
                return self._begin(until)
            except (OSError, EngineError) as error:
                is_cut = not isinstance(error, EngineError) or not error.status
                if self._told_go or self._tries >= BEGIN_TRIES or not is_cut:
                    raise
                if self._stream is not None:
                    self._stream.close()
                self._stream, self._heard = None, []

    def _begin(self, until: float) -> None:
        """Everything up to the word that starts the command."""
        self._reach()
        if self._tries > 1:
            remove_far(self._engine, self.request)
        cargo = self._cargo
        cargo.make_container(self._engine)
        self._stream = stream = FarStream(self._engine, self._plan)
        self._engine.call("POST", f"{self._path}/start")
        stream.tell(cargo.head(self._marker, self._far_name))
        wanted = cargo.check_wanted(self._hear("want", until))
        stream.send(cargo.lines(wanted))
        missing = [str(one) for one in self._hear("missing", until)]
        stream.send([MARK + b"\n"])
        for piece in cargo.contents(missing, wanted):
            self._check_stop()
            if time.monotonic() > until:
                raise TimeoutError(f"the folders were not sent within {SHIP_S:g} s")
            stream.send([piece])
        self._hear("ready", until)
        self._check_stop()
        self._told_go = True
        self._stream.tell({"do": "go"})

    def _reach(self) -> None:
        """An engine that answers: by the daemon's way where that stands, else by one of our own."""
        address = self._plan.address
        if not stands(address):
            address = self._link.open()
        self._engine = EngineSocket(address)
        self._watch.turn_to(self._engine)

    @property
    def _far_name(self) -> str:
        """The run's folder over there, another one for each try."""
        return f"{self._plan.name}.{self._tries}"

    def _hear(self, name: str, until: float) -> Any:
        """The keeper's word of that name; its own failure is ours."""
        stream = self._far()
        while time.monotonic() < until:
            while self._heard:
                kind, word = self._heard.pop(0)
                if kind == "J" and "broken" in word:
                    raise ValueError(str(word["broken"]))
                if kind == "J" and name in word:
                    return word[name]
            self._check_stop()
            stream.beat()
            if stream.wait(0.5, self.signals)[0]:
                self._heard += self._receive_first(stream)
        raise TimeoutError(f"the folders were not sent within {SHIP_S:g} s")

    def _receive_first(self, stream: FarStream) -> list[Frame]:
        """Frames of a keeper that may not have begun; then the image's own words are told."""
        try:
            return stream.receive()
        except ConnectionError as error:
            said = stream.said.decode("utf-8", "replace").strip()
            raise ConnectionError(f"the image's python3 could not begin: {said or error}") from error

    def _far(self) -> FarStream:
        if self._stream is None:
            raise ConnectionError("the way is cut")
        return self._stream

    def _check_stop(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in os.read(self.signals, CHUNK_BYTES):
                raise _Stopped

    # --- while it runs

    def _loop(self) -> None:
        while not (self._told_end or self._lost or self._gone or self._failed):
            stream = self._stream
            if stream is None:
                self.poller.poll(self._pause_ms())
                self._look_for_it()
            else:
                ready, _signals = stream.wait(self._pause_ms() / 1000, self.signals)
                try:
                    if ready:
                        self._take(stream.receive())
                    stream.beat()
                except OSError:
                    self._cut()
            with contextlib.suppress(BlockingIOError):
                if signal.SIGTERM in os.read(self.signals, CHUNK_BYTES):
                    self._end(Ending(ExitKind.KILLED, STOPPED))
            self._hold_limits()

    def _end(self, ending: Ending) -> None:
        """TERM over there, KILL after the grace; what its processes do is not to be seen from here."""
        if self.ending is None:
            self.ending = ending
            self.kill_at = time.monotonic() + (0.0 if ending.at_once else self.limits.grace_s)
            self._ask_tree()

    def _pause_ms(self) -> int:
        return min(super()._pause_ms(), 500 if self._stream is not None else int(1000 * TRY_AGAIN_S))

    def _take(self, frames: list[Frame]) -> None:
        for kind, word in frames:
            if kind == "O":
                self._take_output(*word)
            elif "end" in word and isinstance(word["end"], dict):
                self._told_end = word["end"]
            elif "failed" in word:
                self._failed = str(word["failed"])[:CHUNK_BYTES]

    def _take_output(self, offset: int, piece: bytes) -> None:
        """Output behind what is known; what a cut took away for good is counted and told."""
        have = self.spool.total + self._missed
        if offset > have:
            self._missed += offset - have
            have = offset
        piece = piece[have - offset :]
        for start in range(0, len(piece), CHUNK_BYTES):
            self.spool.write(piece[start : start + CHUNK_BYTES])
        self.last_output = time.monotonic()
        self._wake()

    def _cut(self) -> None:
        """The way is cut: from here on nothing is known of the run until it is found again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        now = time.monotonic()
        self._away_since, self._try_at = self._away_since or now, now

    def _look_for_it(self) -> None:
        """Open the way anew and look for the container by its name, which its label bears too."""
        now = time.monotonic()
        if now < self._try_at:
            return
        self._try_at = now + TRY_AGAIN_S
        try:
            self._reach()
            if not self._engine.call("GET", f"{self._path}/json")["State"]["Running"]:
                self._gone = True
                return
            token = make_token()
            stream = FarStream(self._engine, self._plan, token)
            stream.send([b"\n"])  # ends a line that the cut may have left half
            stream.tell({"do": "resume", "from": self.spool.total + self._missed, "token": token})
            self._stream, self._away_since = stream, None
            self._cuts += 1
            self.last_output = time.monotonic()
            if self.ending is not None:
                self._ask_tree()
        except EngineError as error:
            if error.status == GONE:
                self._lost = "the other machine does not know the run any more; what became of it is unknown"
            self._give_up(now, str(error))
        except _FAILURES as error:
            self._give_up(now, str(error))

    def _give_up(self, now: float, words: str) -> None:
        away = now - (self._away_since or now)
        if self._lost:
            return
        if self.ending is not None and self.kill_at is not None and now > self.kill_at:
            self._lost = (
                f"{self.ending.evidence}, while the other machine could not be reached ({words}): the run ends itself "
                f"there after {self._remote.away_s:g} s, and what it did is unknown"
            )
        elif away > self._remote.away_s + PATIENCE_S:
            self._lost = f"the other machine could not be reached for {away:.0f} s ({words}); the outcome is unknown"

    def _hold_limits(self) -> None:
        """Idle time is not counted while nobody can see whether anything is said."""
        if self._stream is None:
            self.last_output = time.monotonic()
        super()._hold_limits()

    def _ask_tree(self) -> None:
        self._word("term")

    def _kill_tree(self) -> None:
        self._word("kill")
        self.kill_at = time.monotonic() + TRY_AGAIN_S

    def _word(self, what: str) -> None:
        if self._stream is not None:
            try:
                self._stream.tell({"do": what})
            except OSError:
                self._cut()

    def _reap(self) -> None:
        """No process of the run is a child of this one."""

    def _measure(self) -> tuple[float, int | None]:
        return self._watch.cpu_s, self._watch.peak_bytes or None

    # --- when it is over

    def _fetch(self) -> None:
        """The archive of results, from a container that still waits for our thanks or stands still."""
        if self._lost:
            return
        until = time.monotonic() + self._remote.away_s + PATIENCE_S
        tries = 0
        while True:
            tries += 1
            try:
                self._receive(self.folder / f"{BACK}-{tries}")
                break
            except Refused as error:
                if is_final(error, tries):
                    self._lost = tell_refusal(error)
                    break
                words = str(error)
            except EngineError as error:
                if error.status == GONE:
                    self._lost = "the container ended over there and left no end; what became of the run is unknown"
                    break
                words = str(error)
            except _FAILURES as error:
                words = str(error)
            if time.monotonic() > until:
                self._lost = f"the run ended, and its results could not be fetched: {words}"
                break
            time.sleep(TRY_AGAIN_S)
            with contextlib.suppress(*_FAILURES):
                self._reach()
        self._word("bye")

    def _receive(self, folder: Path) -> None:
        connection, rest = self._engine.open("GET", f"{self._path}/archive?path={STORE}/runs/{self._far_name}/out")
        with connection, connection.makefile("rb") as file:
            arrived = receive(Joined(rest, file), folder, self._marker)
        if self._told_end is not None and self._told_end != arrived.end:
            raise Tampered("the end that was told is not the one that was sent")
        status = arrived.end.get("status")
        if type(status) is not int or not -128 < status < 256:
            raise Refused("the end names no status")
        self._arrived, self._told_end, self.main_status = arrived, arrived.end, status
        self._failed = self._failed or str(arrived.end.get("failed", ""))[:CHUNK_BYTES]
        self._complete_output(arrived)

    def _complete_output(self, arrived: Arrived) -> None:
        """What was said while nobody listened: the rest of the output, as far as it was kept."""
        total, have = arrived.end.get("output"), self.spool.total + self._missed
        if type(total) is not int or total < have:
            raise Refused("the end names less output than came")
        if total > have and arrived.ring is not None:
            self._take_output(*read_ring(arrived.ring, have, total))

    def _conclude(self) -> int:
        """See the container dead; 1 when the engine says that it was killed for its memory."""
        try:
            if self._arrived is not None:
                self._engine.call("POST", f"{self._path}/wait?condition=not-running")
            state = self._engine.call("GET", f"{self._path}/json")["State"]
            return int(bool(state["OOMKilled"]))
        except _FAILURES:
            return 0

    def _bring_back(self) -> None:
        """Check what came against what was sent, then write it."""
        arrived, alarms = self._arrived, self.watchdog.alarms
        if arrived is None or self._lost:
            return
        try:
            if not arrived.end.get("whole"):
                raise Refused("there are more files than may come back")
            changes = compare(self._cargo.parcels, self._cargo.covered, arrived)
            alarms += bring(self._cargo.parcels, changes, arrived)
        except (Refused, OSError) as error:
            self._lost = tell_refusal(error)
            return
        left = arrived.end.get("left")
        alarms += [f"not brought back: {one!s:.200}" for one in (left if isinstance(left, list) else [])]
        if self._cuts:
            alarms.append(f"the way to the other machine was cut {self._cuts} times, and the run was found again")
        if self._missed:
            alarms.append(f"{self._missed} bytes of output were lost while the way was cut")
        ours = self.ending is not None
        if arrived.end.get("why") == "nobody" and not ours:
            words = f"ended over there: nobody was heard for {self._remote.away_s:g} s"
            self.ending = Ending(ExitKind.KILLED, words)
        elif arrived.end.get("why") == "deadline" and not ours:
            self.ending = Ending(ExitKind.TIMEOUT, "ended over there at its own deadline")
        passed = [one.name for at, one in enumerate(self.request.bounds) if arrived.end.get("why") == f"{BOUND}{at}"]
        if passed and not ours:
            self.ending = Ending(ExitKind.KILLED, f"{passed[0]} has grown to more than it may, over there")

    def _drop_archives(self) -> None:
        """What came back is written by now or refused: its copy here would only fill the disk."""
        for path in self.folder.glob(f"{BACK}-*"):
            shutil.rmtree(path, ignore_errors=True)

    def tidy(self) -> None:
        """Remove container and volumes, and let go of the way."""
        try:
            remove_far(self._engine, self.request)
        except OSError:  # the daemon took its way along; what no way leads to is removed by a later daemon
            with contextlib.suppress(*_FAILURES):
                self._reach()
                remove_far(self._engine, self.request)
        if self._stream is not None:
            self._stream.close()
        self._link.close()


def is_final(error: Refused, tries: int) -> bool:
    """Whether what was refused is asked for no more. A transfer that was cut looks like a broken archive, once."""
    return isinstance(error, Tampered) or tries >= TAKES_MAX


def tell_refusal(error: Exception) -> str:
    """What is said of a run of which nothing is taken; tampering begins with the words that freeze its session."""
    words = TAMPERED if isinstance(error, Tampered) else "what came back was refused"
    return f"{words}, and nothing of it was taken: {error}"


def read_ring(path: Path, start: int, total: int) -> tuple[int, bytes]:
    """Output from `start` on, out of the keeper's ring: the offset from which it is there, and the bytes."""
    raw = path.read_bytes()
    size = len(raw)
    if not size:
        return total, b""
    start = max(start, total - size)
    at = start % size
    turned = raw[at:] + raw[:at]
    return start, turned[: total - start]
