"""What the tools that use a hand share.

Purpose: start a hand for a call, read its answer, and follow the routes of the levels: once more after a crash, the
registered substitute after a limit.
Invariant: only a hand whose work changes nothing outside its jail is started a second time; what was done instead is
told in the result.
Must never: believe an answer of a run that did not end well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.sandbox.egress.handover import SECRET_SOCKET
from gloveport.sandbox.egress.way import WAY_TARGET
from gloveport.sandbox.monitor.levels import Level, level_of
from gloveport.server.accounts import Account
from gloveport.server.edit.replace import hash_of
from gloveport.server.hands.request import Started, read_answer
from gloveport.server.hands.table import HANDS
from gloveport.server.tools.contract import Performed, RunRequest, ToolContext, ToolError
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.programs import evidence_of, how_it_ended, judged_places, performed
from gloveport.server.workspace.changing import FileEdit

ERROR_CHARACTERS_SHOWN: Final = 1_000
AGAIN_AFTER_CRASH: Final = "it crashed once and was started a second time"


@dataclass(frozen=True, slots=True)
class Worked:
    """The end of a hand's run: `told` is its answer, null where there is none to be believed.

    `instead`: what was done beside the plain run, in words for model and user; `hand`: which one gave the answer.
    """

    result: Result
    told: dict[str, Any] | None
    hand: str
    instead: tuple[str, ...] = ()

    @property
    def level(self) -> Level | None:
        """How far its failure reaches; None for a good end."""
        return level_of(self.result)


async def show_nothing(_piece: bytes) -> None:
    """What a hand writes is for us alone."""


def refuse_size(size: int, hand: str, what: str, hint: str) -> None:
    """Raise ToolError where an input is larger than the hand's row says."""
    most = HANDS[hand].input_bytes_max
    if size > most:
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, f"{what} is larger than {most} bytes", hint=hint)


def request_of(hand: str, started: Started, context: ToolContext) -> RunRequest:
    """One run of a hand under the call's name."""
    return RunRequest(
        context.call_id,
        started.argv,
        HANDS[hand].wall_s,
        tool_kind="small",
        places=judged_places(context) if HANDS[hand].reaches else (),
        hand=hand,
        stdin=started.stdin,
        shown=started.shown,
        environment=started.environment,
        account=started.account,
    )


def account_words(account: Account) -> dict[str, Any]:
    """What a hand is told of a server and of who the user is there. Raises ToolError where its roots cannot be read."""
    try:
        roots = Path(account.ca_file).read_text(encoding="ascii") if account.ca_file else ""
    except (OSError, UnicodeDecodeError) as error:
        words = f"the roots of trust in {account.ca_file} cannot be read"
        raise ToolError(ErrorCode.TOOL_UNAVAILABLE, words, hint="Mend ca_file in the settings.") from error
    return {
        "place": account.place,
        "host": account.place.rpartition(":")[0].strip("[]"),
        "tls": account.tls,
        "ca": roots,
        "user": account.user,
        "has_secret": account.password is not None,
        "secret_socket": f"{WAY_TARGET}/{SECRET_SOCKET}",
    }


async def work(
    hand: str, started: Started, context: ToolContext, *, lean: Callable[[], Started] | None = None
) -> Worked:
    """Run a hand that changes nothing outside its jail: once more after a crash; `lean` after a limit."""
    done = await once(hand, started, context)
    if _crashed(done.result) and not context.is_stopped():
        await context.hands.forget(context.call_id)
        again = await once(hand, started, context)
        done = replace(again, instead=(AGAIN_AFTER_CRASH,))
    substitute = HANDS[hand].substitute
    if done.level is Level.RESOURCES and lean is not None and substitute in HANDS and not context.is_stopped():
        await context.hands.forget(context.call_id)
        words = f"{how_it_ended(done.result)}; {substitute} did it instead"
        second = await once(substitute, lean(), context)
        done = replace(second, instead=(*done.instead, words))
    return done


async def once(hand: str, started: Started, context: ToolContext) -> Worked:
    """One run of a hand."""
    return judge_end(hand, await context.hands.run(request_of(hand, started, context), show_nothing))


def judge_end(hand: str, result: Result) -> Worked:
    """What a run's end says; only a whole answer of a run that ended well is believed."""
    is_good = result.kind is ResultKind.OK and not result.truncated and level_of(result) is not Level.HOSTILE
    told = read_answer(result.output) if is_good else None
    return Worked(result, told, hand)


async def mark_place(path: str, context: ToolContext) -> FileFingerprint:
    """Where a file that a hand makes will go, and what lies there now. Raises GloveportError."""
    real = await context.workspace.resolve(path)
    await context.workspace.check_place(real)
    return FileFingerprint(path=real, base_hash=await context.workspace.digest(real), result_hash=None)


async def take_files(files: Sequence[tuple[FileFingerprint, bytes]], context: ToolContext) -> None:
    """Put files that a hand made where they were judged to go, all or none. Raises GloveportError.

    What lies there already, from before a restart, is left.
    """
    edits = []
    for mark, data in files:
        if not context.was_judged("write", mark.path):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"writing {mark.path} was not judged")
        if await context.workspace.digest(mark.path) != hash_of(data):
            base = None if mark.base_hash is None else Sha256(mark.base_hash)
            edits.append(FileEdit(mark.path, base, data))
    await context.workspace.edit(edits, unless=context.is_stopped)


def failed(done: Worked, context: ToolContext) -> Performed | None:
    """The outcome of a hand that gave nothing: what it says is wrong, or how it ended; null where it gave something."""
    if done.told is not None and "error" not in done.told:
        return None
    if done.told is None:
        said = b"" if read_answer(done.result.output) is not None else done.result.output
        told = clean_output(context.redact(said))[-ERROR_CHARACTERS_SHOWN:].strip()
        cut = "; its answer was longer than what is taken" if done.result.truncated else ""
        instead = "".join(f"; {words}" for words in done.instead)
        ended = performed(
            done.result, f"No result: {how_it_ended(done.result)}{cut}{instead}\n{told}".rstrip(), context
        )
        outcome = "failed" if ended.outcome == "ok" else ended.outcome
        return replace(ended, outcome=outcome, evidence=_evidence(done), output=b"", output_bytes=0)
    words = clean_output(context.redact(str(done.told["error"]).encode("utf-8", "replace")))[:ERROR_CHARACTERS_SHOWN]
    return Performed("failed", f"No result: {words}", _evidence(done), context.label, lasted_us=lasted(done))


def good(done: Worked, text: str, label: LabelRecord, *, output: bytes = b"") -> Performed:
    """The outcome of a hand that gave something, with what was done instead."""
    instead = "".join(f"\n[{words}]" for words in done.instead)
    return Performed(
        "ok", text + instead, _evidence(done), label, output=output, output_bytes=len(output), lasted_us=lasted(done)
    )


def lasted(done: Worked) -> int | None:
    """Microseconds of the run, by its own record."""
    return None if done.result.kind is ResultKind.LOST else int(done.result.wall_s * 1e6)


def _crashed(result: Result) -> bool:
    """True where it died by itself: by a signal that nobody here sent, with no limit met and nothing refused."""
    if result.kind is not ResultKind.FAILED or level_of(result) is not Level.INPUT:
        return False
    return result.signal is not None or (result.exit_code is not None and result.exit_code > SIGNALLED)


SIGNALLED: Final = 128
"""The jail's init reports the end of a program by signal n as 128 + n; our own programs never exit so."""


def _evidence(done: Worked) -> str:
    return "; ".join((evidence_of(done.result), *done.instead))
