"""The door from a connection to the engine.

Purpose: find a method's handler, and see to it that a changing request is done once.
Invariant: two requests with one id never run side by side; the second gets the first one's answer.
Must never: know what a method does.
"""

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import anyio
from pydantic import BaseModel

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import Mutation
from gloveport.protocol.wire.change import ChangeDecideResult
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.commands import budget, place, session
from gloveport.server.commands.handler import Change, Read
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once, checked_id, fingerprint_of
from gloveport.server.transports.port import Caller


def _projected(method: str) -> Read:
    """The handler of a projection; what makes them is loaded when the first one is asked for."""

    async def answer(house: House, params: Any, caller: Caller) -> BaseModel:
        from gloveport.server.commands.views import HANDLERS

        return await HANDLERS[method](house, params, caller)

    return answer


def _read(method: str) -> Read:
    """The handler of a method of work; all of these are loaded with the first one."""

    async def answer(house: House, params: Any, caller: Caller) -> BaseModel:
        from gloveport.server.commands.working import READS as WORKING

        return await WORKING[method](house, params, caller)

    return answer


def _change(method: str) -> Change:
    async def answer(house: House, params: Any, caller: Caller, once: Once) -> BaseModel:
        from gloveport.server.commands.working import CHANGES as WORKING

        return await WORKING[method](house, params, caller, once)

    return answer


READS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "session/list": session.listed,
        "session/show": session.show,
        "session/item/list": session.items,
        "session/export": session.export,
        "session/transcript": _projected("session/transcript"),
        "session/search": _projected("session/search"),
        "task/show": _projected("task/show"),
        "plan/show": _projected("plan/show"),
        "usage/show": _projected("usage/show"),
        "trace/show": _projected("trace/show"),
        "sample/list": _projected("sample/list"),
        "metrics/show": _projected("metrics/show"),
        "approval/list": _read("approval/list"),
        "grant/list": _read("grant/list"),
        "change/list": _read("change/list"),
        "change/hunks": _read("change/hunks"),
        "change/preview": _read("change/preview"),
        "change/document": _read("change/document"),
        "snapshot/list": _read("snapshot/list"),
        "snapshot/preview": _read("snapshot/preview"),
        "tool/why": _read("tool/why"),
        "workspace/list": place.workspaces,
        "workspace/show": place.workspace,
        "sandbox/list": place.sandboxes,
        "sandbox/devcontainer": _read("sandbox/devcontainer"),
        "sandbox/doctor": place.doctor,
        "model/list": place.models,
        "policy/show": _read("policy/show"),
        "policy/explain": _read("policy/explain"),
        "audit/verify": place.verify_audit,
        "audit/export": place.export_audit,
        "daemon/status": place.status,
        "daemon/stop": place.stop,
    }
)
CHANGES: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "session/start": session.start,
        "session/rename": session.rename,
        "session/thaw": session.thaw,
        "session/budget": budget.budget,
        "session/mode": session.mode,
        "session/delete": _change("session/delete"),
        "session/erase": _change("session/erase"),
        "session/rules": _change("session/rules"),
        "turn/start": _change("turn/start"),
        "turn/queue": _change("turn/queue"),
        "turn/steer": _change("turn/steer"),
        "turn/interrupt": _change("turn/interrupt"),
        "turn/edit": _change("turn/edit"),
        "turn/unqueue": _change("turn/unqueue"),
        "turn/cancel": _change("turn/cancel"),
        "approval/resolve": _change("approval/resolve"),
        "grant/revoke": _change("grant/revoke"),
        "tool/settle": _change("tool/settle"),
        "change/accept": _change("change/accept"),
        "change/reject": _change("change/reject"),
        "change/undo": _change("change/undo"),
        "change/redo": _change("change/redo"),
        "snapshot/restore": _change("snapshot/restore"),
        "workspace/trust": place.trust,
        "sandbox/choose": place.choose_sandbox,
        "model/choose": place.choose_model,
    }
)


class Commands:
    """The engine as a connection sees it (`SessionPort`)."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._under_way: dict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def call(self, method: str, params: BaseModel, caller: Caller) -> BaseModel:
        """Answer one valid request. Raises GloveportError."""
        if method in READS:
            return await READS[method](self._house, params, caller)
        if method not in CHANGES or not isinstance(params, Mutation):
            raise GloveportError(ErrorCode.METHOD_NOT_FOUND, f"no method {method!r}")
        return await self._once(method, params, caller)

    async def _once(self, method: str, params: Mutation, caller: Caller) -> BaseModel:
        once = Once(checked_id(params.client_request_id), fingerprint_of(method, params))
        await self._house.sessions.journal_ready()
        lock = self._under_way[once.client_request_id]
        async with lock:
            try:
                recorded = await self._house.sessions.room.journal.answered(once.client_request_id)
                if recorded is None:
                    return await self._change(method, params, caller, once)
                answer = once.recall(recorded, METHODS[method].result)
            finally:
                if lock.statistics().tasks_waiting == 0:
                    self._under_way.pop(once.client_request_id, None)
        return await self._settled(answer, params)

    async def _change(self, method: str, params: Mutation, caller: Caller, once: Once) -> BaseModel:
        """A change that was begun is finished, also when its sender leaves."""
        with anyio.CancelScope(shield=True):
            return await CHANGES[method](self._house, params, caller, once)
        raise AssertionError("a shielded scope ends by its own return")

    async def _settled(self, answer: BaseModel, params: Mutation) -> BaseModel:
        if isinstance(answer, ChangeDecideResult):
            from gloveport.server.commands import change

            actor = await self._house.sessions.open(getattr(params, "session_id", ""))
            return await change.settled(actor, answer)
        return answer
