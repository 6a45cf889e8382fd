"""Negative controls: one deliberate fault each, put around the shipped daemon.

Purpose: show that the oracles bite. A proof that passes with one of these in the daemon proves nothing.
Invariant: each fault is harmless while the daemon lives; only a kill at the wrong moment shows it.
Must never: be switched on by anything but the launcher of the tests.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import GrantUsed
from gloveport.server.engine.actor import Actor, Running
from gloveport.server.session.state import Call
from gloveport.server.tools.contract import Performed
from gloveport.server.turn.effects import RunTool
from gloveport.server.turn.inputs import CallReconciled

FAULT: Final = "GLOVEPORT_PROOF_FAULT"
"""Environment entry: the name of a fault."""


def effect_before_intent() -> None:
    """A tool is performed first and its intent written afterwards; what it did is told when it is asked to run."""
    from gloveport.server.engine import tool_run

    done: dict[str, Performed] = {}
    append, perform = Actor._append, tool_run._perform

    @wraps(append)
    async def early(self: Actor, decided: Any, *rest: Any) -> None:
        for effect in decided.effects:
            call = decided.state.call(effect.call_id) if isinstance(effect, RunTool) else None
            if call is not None and call.tool == "run_command":
                done[call.call_id] = await perform(self, call, Running(), tool_run._show_nothing, attach=False)
        await append(self, decided, *rest)

    @wraps(perform)
    async def told(actor: Actor, call: Call, *rest: Any, **named: Any) -> Performed:
        known = done.pop(call.call_id, None)
        return known if known is not None else await perform(actor, call, *rest, **named)

    setattr(Actor, "_append", early)  # noqa: B010 - a fault around the shipped method
    tool_run._perform = told


def ack_before_commit() -> None:
    """A transaction is called committed at once and is committed by the one that follows it."""
    inner = sqlite3.connect

    class Late(sqlite3.Connection):
        owed = False

        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                self.owed = True
                return super().execute("SELECT 1")
            if self.owed and not sql.startswith("SELECT"):
                self.owed = False
                super().execute("COMMIT")
            return super().execute(sql, *arguments)

    @wraps(inner)
    def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = inner(*arguments, **{**named, "factory": Late})
        return made

    sqlite3.connect = connect  # type: ignore[assignment]


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
    from gloveport.server.engine import tool_run

    async def forgotten(actor: Actor, call: Call) -> CallReconciled:
        for folder in actor.room.journal._directory.glob(f"runs/*/{call.call_id}"):
            folder.rename(folder.with_name(f"lost-{folder.name}"))
        return CallReconciled(call.call_id, "not_started", "it is not known here")

    tool_run.reconcile_call = forgotten


FAULTS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "effect_before_intent": effect_before_intent,
        "ack_before_commit": ack_before_commit,
        "dropped_grant_use": dropped_grant_use,
        "running_runs_again": running_runs_again,
    }
)
