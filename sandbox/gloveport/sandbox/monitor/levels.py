"""What a run that went wrong means: five levels, each with how it is told, where it leads and what the user is told.

Purpose: one table from the evidence of an end to its level.
Invariant: a level follows from evidence (our kill, a kernel counter, refused calls), never from an exit number; none is
silent.
Must never: act; who performs the call does, by the route.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final

from gloveport.protocol.jail.replies import TAMPERED
from gloveport.sandbox.contract import Result, ResultKind


@unique
class Level(IntEnum):
    """How far a failure reaches."""

    INPUT = 0
    DEPENDENCY = 1
    DENIED = 2
    RESOURCES = 3
    HOSTILE = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One level: what it is told by, where it leads, and the words for the user."""

    detection: str
    route: str
    words: str


LEVELS: Final[Mapping[Level, Row]] = MappingProxyType(
    {
        Level.INPUT: Row(
            "the program ended by itself and failed; nothing was refused and no limit was met",
            "the model is told, and changes what it gives",
            "The program failed by itself.",
        ),
        Level.DEPENDENCY: Row(
            "the program was not there, or said that a module is missing",
            "the model is told what is missing; nothing is installed by itself",
            "Something that it needs is not there.",
        ),
        Level.DENIED: Row(
            "it failed, and the sandbox had refused calls of it",
            "the model is told the first refused call; the user decides about another sandbox or a wider one",
            "The sandbox refused something that it tried.",
        ),
        Level.RESOURCES: Row(
            "a limit of time, memory, processes or files, or a threshold of the breaker, ended it",
            "a substitute where the hand has one, else a larger limit that the user allows",
            "It used more than it was given.",
        ),
        Level.HOSTILE: Row(
            "several different calls that serve nothing but a way out were refused, or what came back is not what its "
            "hashes say, or the audit log does not hold what was written to it",
            "its outcome is policy however it ended; the session is frozen, what runs of it is ended, and a security "
            "event stands in the record and in the audit log; nothing begins until the user thaws it",
            "It tried several ways out of the sandbox, and none succeeded. Look at what it is before it runs again.",
        ),
    }
)
TAMPERED_WORDS: Final = (
    "What came back from the other machine was tampered with, and nothing of it was taken. Look at that machine before "
    "anything runs there again."
)
"""The words of the highest level where no call was refused."""
BROKEN_RECORD_WORDS: Final = (
    "The record of what was done here was changed by somebody, or part of it is gone. Look at it (gloveport audit "
    "verify) and at who could have done it before anything runs again."
)
"""Those of it where the audit log is what was attacked."""
WAYS_OUT: Final = frozenset(
    {"mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "clone", "bpf", "init_module", "finit_module",
     "kexec_load", "kexec_file_load", "open_by_handle_at", "open_tree", "move_mount", "fsopen", "ptrace", "keyctl",
     "add_key", "request_key", "io_uring_setup", "userfaultfd", "ioctl"}
)  # fmt: skip
"""Calls that ordinary programs do not make; a test suite that tries one of them is no attack."""
HOSTILE_KINDS_MIN: Final = 5
_MISSING: Final = (b"No module named", b"Cannot find module", b"cannot start ", b": not found", b"cannot find package")


def is_tampered(result: Result) -> bool:
    """Whether what came back of a run is none that a program of ours sends."""
    return result.kind is ResultKind.LOST and result.evidence.startswith(TAMPERED)


def words_of(result: Result) -> str:
    """What the user is told of an end; empty for one without a level."""
    level = level_of(result)
    if level is None:
        return ""
    return TAMPERED_WORDS if is_tampered(result) else LEVELS[level].words


def level_of(result: Result) -> Level | None:
    """The level of an end; None for one that is good, lost (unknown) or was asked for."""
    kinds = {words.partition("(")[0].partition(" ")[0] for words, _times in result.denied} & WAYS_OUT
    if len(kinds) >= HOSTILE_KINDS_MIN or is_tampered(result):
        return Level.HOSTILE
    if result.kind in (ResultKind.TIMEOUT, ResultKind.OOM):
        return Level.RESOURCES
    if result.kind is ResultKind.KILLED:
        return Level.RESOURCES if result.evidence != "stopped on request" else None
    if result.kind is ResultKind.POLICY:
        return Level.DENIED
    if result.kind is not ResultKind.FAILED:
        return None
    if result.denied:
        return Level.DENIED
    return Level.DEPENDENCY if any(word in result.output[-4096:] for word in _MISSING) else Level.INPUT
