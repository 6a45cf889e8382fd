"""One life: a job, its kills, and what the oracles say.

Purpose: start the counted daemon again and again, each time with the next aim, until the job is done; look after each
    death, and at the end.
Invariant: everything follows from the course; the folder of a life with complaints stays.
Must never: look only at the end: a fault that a later recovery hides is one still.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.proof.coverage import Course
from tests.kit.proof.ending import (
    Baseline,
    check_ended,
    check_leftovers,
    check_orphans,
    check_same,
    decisions_of,
    turns_of,
)
from tests.kit.proof.house import DaemonGoneError, Death, House, new_folder
from tests.kit.proof.oracles import check_death, check_gone
from tests.kit.proof.progress import SYSCALL, Aim, read_notes
from tests.kit.proof.record import Record, read_folder, read_record, witnessed
from tests.kit.proof.starting import Nursery, last_call
from tests.kit.proof.user import ProofFailedError, User
from tests.kit.proof.workload import job_named

from gloveport.protocol.errors import GloveportError
from gloveport.server.journal.errors import JournalError


@dataclass
class Life:
    """What became of a life."""

    course: Course
    folder: Path
    kills: list[tuple[str, ...]] = field(default_factory=list)
    missed: int = 0
    complaints: list[str] = field(default_factory=list)
    trace: list[tuple[str, ...]] = field(default_factory=list)
    baseline: Baseline = field(default_factory=lambda: ({}, []))
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What the lives of a run share."""

    nursery: Nursery
    fault: str = ""
    keep: bool = False


async def live(course: Course, baseline: Baseline | None, setting: Setting) -> Life:
    """Live a life. Without a baseline it is the uncrashed one that gives it."""
    nursery = None if course.cold else setting.nursery
    house = House(new_folder(), job_named(course.job), nursery, setting.fault)
    life = Life(course, house.folder)
    began = time.monotonic()
    house.prepare()
    user = User(house)
    try:
        await _kill_and_go_on(life, house, user)
        await _end(life, house, user, baseline)
    except ProofFailedError as error:
        life.complaints.append(str(error))
    except GloveportError as error:
        life.complaints.append(f"{error.code}: {error.message}")
    finally:
        await house.end(9)
    life.took_s = time.monotonic() - began
    if not life.complaints:
        life.complaints += check_orphans(setting.nursery.process.pid)
    if not life.complaints and not setting.keep:
        shutil.rmtree(house.folder, ignore_errors=True)
    return life


async def _kill_and_go_on(life: Life, house: House, user: User) -> None:
    """One daemon after the other, until the job is done."""
    base = read_folder(house.root)
    for aim in (*life.course.aims, None):
        house.start(aim)
        try:
            await user.go_on()
        except DaemonGoneError:
            _take_note(life, house, await house.wait_death(), aim)
            _look(life, house, user, base)
            if life.complaints:
                raise ProofFailedError("as told above") from None
            continue
        if aim is not None:  # the job came to its end before the aim: what is looked at is a daemon that lives
            life.missed += 1
            await house.end()
            house.start(None)
            await user.go_on()
        return


def _take_note(life: Life, house: House, death: Death, aim: Aim | None) -> None:
    if aim is None or not death.killed:
        raise ProofFailedError(f"the daemon ended by itself with {death.code}")
    if aim.label == SYSCALL:
        life.kills.append((f"{SYSCALL}/{last_call(house.trace)}",))
        return
    points = read_notes(house.notes)
    life.kills.append(points[-1] if points else ())


def _look(life: Life, house: House, user: User, base: dict[str, str]) -> None:
    try:
        record = read_record(house.home)
    except JournalError:
        if user.memory.acknowledged:
            raise
        record = Record({}, {}, ())  # it died while the journal was made; nobody was promised anything yet
    now = read_folder(house.root)
    life.complaints += check_death(record, user.memory, witnessed(house.witness), base, now)
    life.complaints += check_gone(house.home) if user.memory.erased else ()


async def _end(life: Life, house: House, user: User, baseline: Baseline | None) -> None:
    """The end of the job: twice resumed is once resumed, nothing is left, and all is as without a kill."""
    base = job_files(house)
    before = await user.state_digest()
    life.trace = read_notes(house.notes)
    await house.end()
    house.start(None)
    after = await user.state_digest()
    await house.end()
    record = read_record(house.home)
    life.baseline = (turns_of(record, house), decisions_of(record))
    if before != after:
        life.complaints.append(f"resumed once more, {before} became {after}")
    if record.folded().view.digest() != after[1]:
        life.complaints.append("a replay of the log gives another view than the daemon's")
    life.complaints += check_death(record, user.memory, witnessed(house.witness), base, read_folder(house.root))
    life.complaints += [*check_ended(record, house), *check_leftovers(record, house)]
    life.complaints += check_gone(house.home) if user.memory.erased else ()
    if baseline is None:
        if any(tries > 1 for tries in user.memory.tries.values()):
            life.complaints.append(f"without a kill something was tried again: {user.memory.tries}")
    else:
        life.complaints += check_same(record, house, user, baseline)


def job_files(house: House) -> dict[str, str]:
    """The user's files as they were before the job."""
    return job_named("reads").files(house.witness)


def words_of(life: Life) -> Sequence[str]:
    """A life in lines, for a person; the course lives it again exactly."""
    course = {"job": life.course.job, "aims": [aim.encode() for aim in life.course.aims], "cold": life.course.cold}
    return [
        f"--course '{json.dumps(course)}'",
        f"killed at {life.kills}",
        *life.complaints,
        f"kept in {life.folder}",
    ]
