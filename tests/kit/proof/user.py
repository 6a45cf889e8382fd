"""A user who goes on: the acts of a job, through one client after the other.

Purpose: perform the acts of a job against daemons that die, asking again with the same request ids.
Invariant: what was acknowledged or shown is remembered here, outside every daemon, to be held against the journal.
Must never: ask for a new try unless the record explains why the last one did not end as it should.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from tests.kit.proof.house import DaemonGoneError, House
from tests.kit.proof.workload import QUEUED, RULES, SECRET, STEERED, TRIES_MAX, Act, Decide, Erase, Say, message_of

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionMutation, SessionParams, WireModel
from gloveport.protocol.wire.change import ChangeDecideParams, ChangeUndoParams, Selection
from gloveport.protocol.wire.place import WorkspaceTrustParams
from gloveport.protocol.wire.policy import SessionRulesParams
from gloveport.protocol.wire.reducer import View
from gloveport.protocol.wire.session import SessionEraseParams, SessionStartParams
from gloveport.protocol.wire.turn import (
    ApprovalResolveParams,
    ToolSettleParams,
    TurnCancelParams,
    TurnQueueParams,
    TurnStartParams,
    TurnSteerParams,
)
from gloveport.server.client.connect import Client
from gloveport.server.commands.session import MARK_CHARACTERS

WAIT_S: Final = 90.0
_ENDED: Final = ("completed", "failed", "cancelled")
_UNKNOWN: Final = frozenset({("tool", "unknown"), ("tool", "lost")})
AGAIN_MAX: Final = 2
"""So many of the last acknowledged requests are asked again after each restart."""
_EXPLAINED_CODES: Final = frozenset(
    {ErrorCode.CHANGE_CONFLICT, ErrorCode.CHANGE_UNKNOWN, ErrorCode.CHANGE_SUPERSEDED, ErrorCode.TURN_BUSY}
)


class ProofFailedError(Exception):
    """Something that must never be; the words say what."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A changing request and the answer it got."""

    method: str
    params: WireModel
    answer: WireModel


@dataclass
class Memory:
    """What a client knows for good."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    cursors: set[str] = field(default_factory=set)
    durable: str | None = None
    seqs: dict[int, str] = field(default_factory=dict)
    asked: dict[str, WireModel] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    erased: bool = False
    """An erasure was answered: no file of the daemon's may hold the text."""
    done: int = 0


class User:
    """The acts of one job; `memory` lives as long as the life."""

    def __init__(self, house: House) -> None:
        self.house, self.job = house, house.job
        self.memory = Memory()
        self.session_id = ""
        self.view = View()
        self._cursor: str | None = None

    async def go_on(self) -> None:
        """Perform what is left of the job. Raises DaemonGoneError when the daemon dies, ProofFailedError."""
        try:
            async with self.house.client() as client:
                await self._again(client)
                await self._begin(client)
                while self.memory.done < len(self.job.acts):
                    act = self.job.acts[self.memory.done]
                    with anyio.fail_after(WAIT_S):
                        await self._act(client, act)
                    self.memory.done += 1
        except GloveportError as error:
            if error.code is ErrorCode.UNREACHABLE:
                raise DaemonGoneError from error
            raise ProofFailedError(f"refused: {error.code}: {error.message}") from error
        except TimeoutError as error:
            if not self.house.alive:
                raise DaemonGoneError from error
            raise ProofFailedError(f"nothing more happens in act {self.memory.done}: {self._words()}") from error

    def _words(self) -> str:
        return "; ".join(f"{item['id']}={item['fields'].get('state')}" for item in self.view.items())[-1500:]

    async def _ask(self, client: Client, method: str, make: Callable[[str], WireModel], name: str) -> WireModel:
        """A changing request under a lasting id; the first parameters it was asked with are kept."""
        params = self.memory.asked.setdefault(name, make(name))
        answer = await client._ask(method, params, None)
        self.memory.acknowledged.append(Acknowledged(method, params, answer))
        return answer

    async def _again(self, client: Client) -> None:
        """What was acknowledged is answered the same when it is asked again."""
        for known in self.memory.acknowledged[-AGAIN_MAX:]:
            answer = await client._ask(known.method, known.params, None)
            if answer != known.answer:
                raise ProofFailedError(f"{known.method} was answered {known.answer!r} and now {answer!r}")

    async def _begin(self, client: Client) -> None:
        root = str(self.house.root)
        await self._ask(
            client,
            "workspace/trust",
            lambda name: WorkspaceTrustParams(client_request_id=name, root=root, trust_level="trusted"),
            "trust",
        )
        answer = await self._ask(
            client, "session/start", lambda name: SessionStartParams(client_request_id=name, root=root), "start"
        )
        self.session_id = str(getattr(answer, "session_id", ""))

    async def _act(self, client: Client, act: Act) -> None:
        while True:
            attempt = self.memory.tries.setdefault(act.name, 1)
            if attempt > TRIES_MAX:
                raise ProofFailedError(f"{act.name} did not end in {TRIES_MAX} tries")
            if await self._perform(client, act):
                return
            self.memory.tries[act.name] += 1

    async def _perform(self, client: Client, act: Act) -> bool:
        match act:
            case Say():
                return await self._say(client, act)
            case Erase():
                return await self._erase(client, act)
            case Decide():
                return await self._decide(client, act)

    async def _erase(self, client: Client, act: Erase) -> bool:
        session_id = self.session_id

        def make(name: str) -> WireModel:
            return SessionEraseParams(
                client_request_id=name, session_id=session_id, text=SECRET, typed=session_id[-MARK_CHARACTERS:]
            )

        try:
            await self._ask(client, "session/erase", make, f"{act.name}-{self.memory.tries[act.name]}")
        except GloveportError as error:
            if error.code is not ErrorCode.BUSY:  # a reader held the old bytes
                raise
            return False
        self.memory.erased = True
        return True

    async def _settle(self, client: Client) -> None:
        """Two clients say what became of each call that nobody knows: one of them is heard, once."""
        for item in self.view.items():
            if (item["kind"], item["fields"].get("state")) not in _UNKNOWN or item["id"] in self.memory.settled:
                continue
            call_id, told = item["id"].removeprefix("tool/"), list[ErrorCode | None]()
            async with self.house.client() as other, anyio.create_task_group() as both:
                for name, who in (("one", client), ("two", other)):
                    both.start_soon(self._say_outcome, who, call_id, name, told)
            if ErrorCode.UNREACHABLE in told:
                raise DaemonGoneError
            if sorted(map(str, told)) != sorted(map(str, (None, ErrorCode.TOOL_UNKNOWN))):
                raise ProofFailedError(f"two settled {call_id}, and were told {told}")
            self.memory.settled.add(item["id"])

    async def _say_outcome(self, client: Client, call_id: str, name: str, told: list[ErrorCode | None]) -> None:
        def make(request_id: str) -> WireModel:
            return ToolSettleParams(
                client_request_id=request_id, session_id=self.session_id, call_id=call_id, said="done"
            )

        try:
            await self._ask(client, "tool/settle", make, f"settle-{name}-{call_id}")
        except GloveportError as error:
            told.append(error.code)
        else:
            told.append(None)

    async def _say(self, client: Client, act: Say) -> bool:
        attempt = self.memory.tries[act.name]
        text = " ".join(filter(None, (message_of(act, attempt), act.beside)))
        answer = await self._ask(
            client,
            "turn/start",
            lambda name: TurnStartParams(client_request_id=name, session_id=self.session_id, text=text),
            f"{act.name}-{attempt}",
        )
        turn_id = getattr(answer, "turn_id", None)
        follow = client.follow(self.session_id, after=self._cursor, view=self.view if self._cursor else None)
        async with follow:
            async for update in follow:
                self.view, self._cursor = follow.view, update.cursor
                self._remember(update, follow.durable)
                state = self._fields(f"turn/{turn_id}").get("state")
                if state in _ENDED and (last := self._last(act, attempt, str(state))) is not None:
                    await self._settle(client)
                    return self._judged(act, last)
                await self._answer(client, act)
                await self._press_stop(client, act, attempt)
                await self._interpose(client, act, attempt, str(turn_id))
        raise DaemonGoneError

    def _remember(self, update: Any, durable: str | None) -> None:
        self.memory.cursors.add(update.cursor)
        self.memory.durable = durable or self.memory.durable
        self.memory.seqs.update({event.seq: event.type for event in update.events})

    def _fields(self, name: str) -> dict[str, Any]:
        for item in self.view.items():
            if item["id"] == name:
                fields: dict[str, Any] = item["fields"]
                return fields
        return {}

    def _last(self, act: Say, attempt: int, state: str) -> str | None:
        """The end of the turn, or of that of the message that waited for it; None while it goes on."""
        queued = self._answered(f"queue-{act.name}-{attempt}")
        if state != "completed" or queued is None:
            return state
        message = self._fields(f"message/{getattr(queued, 'message_id', '')}")
        ended = self._fields(f"turn/{message.get('turnId')}").get("state")
        return str(ended) if ended in _ENDED else None

    def _answered(self, name: str) -> WireModel | None:
        asked = self.memory.asked.get(name)
        return next((known.answer for known in self.memory.acknowledged if known.params is asked), None)

    async def _interpose(self, client: Client, act: Say, attempt: int, turn_id: str) -> None:
        """What is said while the command runs, each once; then its gate is opened."""
        began = f"began {act.name}-{attempt}"
        if act.stop or not any(began in str(item["fields"].get("output", "")) for item in self.view.items()):
            return
        session_id, running = self.session_id, self._fields(f"turn/{turn_id}").get("state") == "running"
        if act.steered and running and self._answered(f"steer-{act.name}-{attempt}") is None:
            await self._ask(
                client,
                "turn/steer",
                lambda name: TurnSteerParams(
                    client_request_id=name,
                    session_id=session_id,
                    expected_turn_id=turn_id,
                    text=message_of(act, attempt, STEERED),
                    kind="supplement",
                ),
                f"steer-{act.name}-{attempt}",
            )
        if act.queued and running and self._answered(f"queue-{act.name}-{attempt}") is None:
            await self._ask(
                client,
                "turn/queue",
                lambda name: TurnQueueParams(
                    client_request_id=name, session_id=session_id, text=message_of(act, attempt, QUEUED)
                ),
                f"queue-{act.name}-{attempt}",
            )
        if act.ruled and running and self._answered(f"rules-{act.name}-{attempt}") is None:
            await self._ask(
                client,
                "session/rules",
                lambda name: SessionRulesParams(client_request_id=name, session_id=session_id, text=RULES),
                f"rules-{act.name}-{attempt}",
            )
        if act.lost:
            self.house.lose_runs()
        (self.house.gates / f"{act.name}-{attempt}").touch()

    def _judged(self, act: Say, state: str) -> bool:
        """Whether the try went as it should; another one needs a reason in the record, and with one it is made.

        A script counts answers, so one that broke off and was asked for again may have led it astray.
        """
        reasons = self._reasons(act) - self.memory.excused
        self.memory.excused |= reasons
        if act.lost and state == act.ends and any(name.startswith("tool/") for name in reasons):
            return True
        if not reasons and state != act.ends:
            raise ProofFailedError(f"the turn of {act.name!r} ended {state} without a reason: {self._words()}")
        return not reasons or (state == act.ends == "cancelled")

    def _reasons(self, act: Say) -> set[str]:
        """Answers that broke off, and calls whose outcome is unknown."""
        excuses = {("message.assistant", "interrupted"), *_UNKNOWN}
        return {item["id"] for item in self.view.items() if (item["kind"], item["fields"].get("state")) in excuses}

    async def _answer(self, client: Client, act: Say) -> None:
        for item in self.view.items():
            fields = item["fields"]
            if item["kind"] != "approval" or fields["state"] != "pending":
                continue
            approval_id, digest = item["id"].removeprefix("approval/"), fields["cardDigest"]

            def make(name: str, approval_id: str = approval_id, digest: str = digest) -> SessionMutation:
                return ApprovalResolveParams(
                    client_request_id=name,
                    session_id=self.session_id,
                    approval_id=approval_id,
                    card_digest=digest,
                    decision="deny" if act.deny else "allow",
                )

            try:
                await self._ask(client, "approval/resolve", make, f"card-{approval_id}-{digest[:8]}")
            except GloveportError as error:
                if error.code not in (ErrorCode.APPROVAL_UNKNOWN, ErrorCode.SUPERSEDED):
                    raise

    async def _press_stop(self, client: Client, act: Say, attempt: int) -> None:
        if not act.stop or not any(self._shows(item["fields"], act, attempt) for item in self.view.items()):
            return
        name = f"stop-{act.name}-{attempt}"
        if any(known.params == self.memory.asked.get(name) for known in self.memory.acknowledged):
            return
        await self._ask(
            client, "turn/cancel", lambda id: TurnCancelParams(client_request_id=id, session_id=self.session_id), name
        )

    def _shows(self, fields: dict[str, Any], act: Say, attempt: int) -> bool:
        text = str(fields.get("text", "")) + str(fields.get("output", ""))
        return fields.get("state") in ("running", "streaming") and act.stop in text

    async def _decide(self, client: Client, act: Decide) -> bool:
        attempt = self.memory.tries[act.name]
        name = f"{act.name}-{attempt}"
        try:
            if name not in self.memory.asked:
                self.memory.asked[name] = await self._decision(client, act, name)
            await self._ask(client, f"change/{act.action}", lambda _: self.memory.asked[name], name)
        except GloveportError as error:
            if error.code not in _EXPLAINED_CODES:
                raise
            return False
        return True

    async def _decision(self, client: Client, act: Decide, name: str) -> WireModel:
        if act.action == "undo":
            return ChangeUndoParams(client_request_id=name, session_id=self.session_id)
        listed = await client.call("change/list", SessionParams(session_id=self.session_id))
        chosen = tuple(
            Selection(change_id=change.change_id, digest=change.digest)
            for change in listed.changes
            if change.path in act.paths
        )
        if len(chosen) != len(act.paths):
            raise ProofFailedError(f"{act.name}: not all of {act.paths} are proposed")
        return ChangeDecideParams(client_request_id=name, session_id=self.session_id, selections=chosen)

    async def state_digest(self) -> tuple[str, str]:
        """The session's cursor and the digest of its whole view, read anew from the daemon."""
        with anyio.fail_after(WAIT_S):
            async with self.house.client() as client:
                shown = await client.call("session/show", SessionParams(session_id=self.session_id))
                async with client.follow_from_start(self.session_id) as follow:
                    async for update in follow:
                        if update.cursor == shown.cursor:
                            return update.cursor, follow.view.digest()
        raise DaemonGoneError
