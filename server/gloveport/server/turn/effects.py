"""Everything the machine may ask of the world, as one closed union.

Purpose: nouns of intent; the engine performs them after the events of the same step are on disk.
Invariant: an effect names what it is about by id; the facts it needs are in the state.
Must never: carry behaviour.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send the request and bring its parts back as inputs."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StopModel:
    """Close the request's connection."""

    request_id: str


@dataclass(frozen=True, slots=True)
class WaitRetry:
    """Wait until the retry of this failed request is due."""

    request_id: str


@dataclass(frozen=True, slots=True)
class DropWait:
    """Nobody waits for this retry any more."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ShrinkContext:
    """Find what can be shown shorter."""

    compaction_id: str


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """Plan the call with its tool and ask policy."""

    call_id: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Perform the call whose intent is on disk."""

    call_id: str


@dataclass(frozen=True, slots=True)
class AttachTool:
    """Find the execution that outlived the last daemon and bring its outcome back."""

    call_id: str


@dataclass(frozen=True, slots=True)
class StopTool:
    """Stop the running tool as its stop class allows."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ApplyChanges:
    """Write the plan whose intent is on disk."""

    apply_id: str


Effect = (
    CallModel
    | StopModel
    | WaitRetry
    | DropWait
    | ShrinkContext
    | JudgeCall
    | RunTool
    | AttachTool
    | StopTool
    | ApplyChanges
)
