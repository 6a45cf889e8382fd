"""Negative controls: one deliberate fault each, put around the shipped daemon.

Purpose: show that the oracles bite. A proof that passes with one of these in the daemon proves nothing.
Invariant: each fault is harmless while the daemon lives; only a kill at the wrong moment shows it.
Must never: be switched on by anything but the launcher of the tests.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import anyio

from gloveport.protocol.journal.events import GrantUsed
from gloveport.protocol.wire.turn import TurnStartParams, TurnStartResult
from gloveport.server.commands import port
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine import erasing, perform, tool_run
from gloveport.server.engine.actor import Actor, Running
from gloveport.server.recovery import recover
from gloveport.server.session.state import Call
from gloveport.server.tools.contract import Performed
from gloveport.server.transports.port import Caller
from gloveport.server.turn.effects import RunTool
from gloveport.server.turn.inputs import CallReconciled, SendMessage

LATE_S: Final = 0.05


def effect_before_intent() -> None:
    """A tool is performed first and its intent written afterwards; what it did is told when it is asked to run."""
    done: dict[str, Performed] = {}
    append, do = Actor._append, tool_run._perform

    @wraps(append)
    async def early(self: Actor, decided: Any, *rest: Any) -> None:
        for effect in decided.effects:
            call = decided.state.call(effect.call_id) if isinstance(effect, RunTool) else None
            if call is not None and call.tool == "run_command":
                Path(json.loads(call.arguments_json)["argv"][-1]).touch()  # its gate: nobody sees that it waits
                done[call.call_id] = await do(self, call, Running(), tool_run._show_nothing, attach=False)
        await append(self, decided, *rest)

    @wraps(do)
    async def told(actor: Actor, call: Call, *rest: Any, **named: Any) -> Performed:
        known = done.pop(call.call_id, None)
        return known if known is not None else await do(actor, call, *rest, **named)

    setattr(Actor, "_append", early)  # noqa: B010 - a fault around the shipped method
    tool_run._perform = told


def ack_before_commit() -> None:
    """A message is acknowledged first and written afterwards."""

    async def early(house: House, params: TurnStartParams, caller: Caller, once: Once) -> TurnStartResult:
        actor = await house.sessions.open(params.session_id)
        room = house.sessions.room
        answer = TurnStartResult(turn_id=room.new_id("turn"), message_id=room.new_id("message"))

        async def later() -> None:
            await anyio.sleep(LATE_S)
            given = SendMessage(answer.message_id, answer.turn_id, params.text, queue=False)
            perform.start(actor, await actor.submit(given, once.request(answer)))

        room.tasks.start_soon(later)
        return answer

    vars(port)["CHANGES"] = MappingProxyType({**port.CHANGES, "turn/start": early})


def dropped_grant_use() -> None:
    """The use of a right is known in memory and missing in the journal."""
    append = Actor._append

    @wraps(append)
    async def dropping(self: Actor, decided: Any, *rest: Any) -> None:
        kept = tuple(body for body in decided.events if not isinstance(body, GrantUsed))
        await append(self, replace(decided, events=kept), *rest)

    setattr(Actor, "_append", dropping)  # noqa: B010 - a fault around the shipped method


def running_runs_again() -> None:
    """After a restart a program that was running is taken for one that never began."""

    async def forgotten(actor: Actor, call: Call) -> CallReconciled:
        for folder in actor.room.journal._directory.glob(f"runs/*/{call.call_id}"):
            folder.rename(folder.with_name(f"lost-{folder.name}"))
        return CallReconciled(call.call_id, "not_started", "it is not known here")

    vars(recover)["reconcile_call"] = forgotten


def erased_before_fact() -> None:
    """A text is erased in one transaction, and the fact that says so is written in another."""
    write = erasing._write

    @wraps(write)
    async def early(actor: Actor, found: Any, *rest: Any) -> None:
        await actor.room.journal.erase(actor.stream, found.seqs)
        await write(actor, found, *rest)

    setattr(erasing, "_write", early)  # noqa: B010 - a fault around the shipped function


FAULTS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "effect_before_intent": effect_before_intent,
        "ack_before_commit": ack_before_commit,
        "dropped_grant_use": dropped_grant_use,
        "running_runs_again": running_runs_again,
        "erased_before_fact": erased_before_fact,
    }
)
