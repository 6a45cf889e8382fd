"""What comes out of a sandbox, looked through before anybody is told of it.

Purpose: take known and likely secrets out of what a call says, and find them, and text that speaks to agents, in the
files that it left.
Invariant: a file in which a likely secret is new, or that was not looked through, is labelled as confidential before
its proposal is recorded; what was in the user's own file already is nothing new; what is not found lowers no label.
Must never: keep or tell a value that was found, keep a result from being told, or decide anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio.to_thread

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import (
    ArtifactSuspected,
    ChangeProposed,
    CopyUnseen,
    EventBody,
    Hint,
    SecretPlace,
)
from gloveport.server.edit.render import visible
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.hands import SANDBOX
from gloveport.server.engine.labelling import confidential
from gloveport.server.engine.looking import Looked
from gloveport.server.policy.hints import suspicions
from gloveport.server.secrets.detect import Redactor
from gloveport.server.session.fold_labels import UNSEEN_KEPT_MAX, join_labels
from gloveport.server.session.state import Call
from gloveport.server.tools.contract import Performed
from gloveport.server.tools.output import clean_output
from gloveport.server.workspace.staying import Staying

ARTIFACT_BYTES_MAX: Final = 4 * 1024 * 1024
"""A file that is larger is not looked through: it counts as confidential, and that is told."""
LOOK_BYTES_MAX: Final = 8 * 1024 * 1024
"""Nor is what is more than this of one call."""
HINT_BYTES_MAX: Final = 256 * 1024
"""So much of the beginning of a file is looked through for text that speaks: it takes ten times as long."""
ARTIFACTS_TOLD_MAX: Final = 100
PLACES_TOLD_MAX: Final = 8
NAMED_MAX: Final = 5
WHOLE_COPY: Final = "the session's copy of the folder"
"""What is not looked through where the look failed."""
_IGNORED: Final = "Written, but ignored here (git's rules) and so not proposed"
_WRITTEN: Final = "What looks like a secret was written to"


@dataclass(frozen=True, slots=True)
class _Found:
    """What is new in a file: kinds and lines of likely secrets, and hints at injections."""

    secrets: tuple[SecretPlace, ...] = ()
    hints: tuple[Hint, ...] = ()
    looked_at: bool = True

    @property
    def is_nothing(self) -> bool:
        """True for a file that nobody has to be told of."""
        return self.looked_at and not self.secrets and not self.hints


def without_secrets(performed: Performed, redactor: Redactor) -> Performed:
    """The outcome with its words redacted; its label is found after that, so that a mark in it raises the label."""
    text, evidence = redactor.redact(performed.text), redactor.redact(performed.evidence)
    return replace(performed, text=text, evidence=evidence)


async def looked_through(actor: Actor, call: Call, looked: Looked) -> Looked:
    """What a call changed, with what was found in it where a program or a hand in a sandbox made it."""
    if call.started is None or not call.started.executor.startswith(SANDBOX):
        return looked
    room = LOOK_BYTES_MAX
    facts: list[EventBody] = []
    told: list[ArtifactSuspected] = []
    for fact in looked.facts:
        if not isinstance(fact, ChangeProposed) or fact.result_hash is None:
            facts.append(fact)
            continue
        data = await actor.workspace.content(fact.result_hash) or b""
        base = await actor.workspace.content(fact.base_hash) or b""
        if len(data) > min(ARTIFACT_BYTES_MAX, room):
            found = _Found(looked_at=False)
        else:
            room -= len(data)
            found = await anyio.to_thread.run_sync(partial(_new_in, data, base, actor.room.redactor))
        if found.secrets or not found.looked_at:
            secret = confidential(actor.state, f"secret-like:{fact.path}")
            fact = fact.model_copy(update={"label": join_labels(fact.label, secret)})
        facts.append(fact)
        if not found.is_nothing and len(told) < ARTIFACTS_TOLD_MAX:
            told.append(_told(call, fact, found))
    words = " ".join(filter(None, (looked.words, _words(told))))
    return replace(looked, facts=(*facts, *told), words=words)


async def with_what_stays(actor: Actor, call: Call, done: Performed, since_us: int) -> Performed:
    """The outcome under the label of what the call left where nothing is proposed: ignored folders, dependencies.

    It stays in the session's copy and anything may read it later, so the session itself has read it. What an install
    brings is the packages' own. Needs the look behind the call.
    """
    started = call.started
    if started is None or not started.executor.startswith(SANDBOX):
        return done
    if any(effect.kind == "install" for effect in started.effects):
        return done
    try:
        stays = await actor.workspace.staying(since_us, ARTIFACT_BYTES_MAX, LOOK_BYTES_MAX)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return _with_unseen(actor, call, done, [WHOLE_COPY])
    done = _with_unseen(actor, call, done, [one.path for one in stays if one.is_unseen])
    told_already = actor.workspace.is_unknown
    left = sorted(visible(one.path) for one in stays if not one.is_tools_own and not told_already(one.path))
    if left:
        words = f"{_IGNORED} ({len(left)}): {_named(left)}."
        done = replace(done, text="\n".join(filter(None, (done.text, words))))
    found = await anyio.to_thread.run_sync(_secret_places, stays, actor.room.redactor)
    if not found:
        return done
    words = f"{_WRITTEN} {_named(found)}; it counts as confidential."
    label = join_labels(done.label, confidential(actor.state, f"secret-like:{call.tool}"))
    return replace(done, label=label, text="\n".join(filter(None, (done.text, words))))


def _with_unseen(actor: Actor, call: Call, done: Performed, paths: Sequence[str]) -> Performed:
    """The outcome with the fact that these were not looked through, where that is news."""
    first = tuple(map(visible, sorted(paths)[:UNSEEN_KEPT_MAX]))
    if set(first) <= set(actor.state.unseen):
        return done
    turn_id = actor.state.turn.turn_id if actor.state.turn is not None else ""
    fact = CopyUnseen(
        turn_id=turn_id, goal_revision=call.goal_revision, call_id=call.call_id, files=len(paths), paths=first
    )
    return replace(done, facts=(*done.facts, fact))


def _secret_places(stays: Sequence[Staying], redactor: Redactor) -> list[str]:
    read = ((one.path, one.data) for one in stays if one.data is not None)
    firsts = ((path, next(_secrets(data, redactor), None)) for path, data in read)
    return [_place(path, first[1]) for path, first in firsts if first is not None]


def _new_in(data: bytes, base: bytes, redactor: Redactor) -> _Found:
    """What stands in the new content and not in the old; bytes that are no text are looked through as they are."""
    secrets = list(_secrets(data, redactor))
    before = {value for value, _place in _secrets(base[:ARTIFACT_BYTES_MAX], redactor)} if secrets else set()
    return _Found(tuple(place for value, place in secrets if value not in before), tuple(_hints(data, base)))


def _secrets(data: bytes, redactor: Redactor) -> Iterator[tuple[bytes, SecretPlace]]:
    line, at = 1, 0
    for kind, start, end in redactor.kinds(data):
        line, at = line + data.count(b"\n", at, start), start
        yield data[start:end], SecretPlace(kind=kind, line=line)


def _hints(data: bytes, base: bytes) -> Iterator[Hint]:
    if b"\0" in data:
        return
    found, _more = suspicions(clean_output(data[:HINT_BYTES_MAX]))
    known = {one.excerpt for one in suspicions(clean_output(base[:HINT_BYTES_MAX]))[0]} if found else set()
    for one in found:
        if one.excerpt not in known:
            yield Hint(kind=one.kind, line=one.line, excerpt=one.excerpt)


def _told(call: Call, fact: ChangeProposed, found: _Found) -> ArtifactSuspected:
    return ArtifactSuspected(
        turn_id=fact.turn_id,
        goal_revision=fact.goal_revision,
        call_id=call.call_id,
        change_id=fact.change_id,
        path=fact.path,
        secrets=found.secrets[:PLACES_TOLD_MAX],
        hints=found.hints,
        left_out=max(0, len(found.secrets) - PLACES_TOLD_MAX),
        looked_at=found.looked_at,
    )


def _words(told: list[ArtifactSuspected]) -> str:
    """What the result says of files with likely secrets; hints are for the user alone, and stand with the change."""
    found = [_place(one.path, one.secrets[0]) for one in told if one.secrets]
    large = [visible(one.path) for one in told if not one.looked_at]
    said = (_WRITTEN, found), ("Too large to be looked through for secrets:", large)
    return " ".join(f"{begin} {_named(names)}; it counts as confidential." for begin, names in said if names)


def _place(path: str, secret: SecretPlace) -> str:
    return f"{visible(path)} ({secret.kind}, line {secret.line})"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"
