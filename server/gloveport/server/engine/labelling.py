"""Labels of what calls read, print and write.

Purpose: say under which label a result enters the model's context and a change the worktree.
Invariant: a result is at or above the context's label, that of its tool and that of everything the call could read; a
program could read the whole worktree.
Must never: lower a label, or take a tool's word for less than its effects.
"""

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import LabelledFile
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.policy.sinks import provider_reader
from gloveport.server.session.fold_labels import join_all_labels
from gloveport.server.session.state import Call, SessionState
from gloveport.server.tools.contract import Performed
from gloveport.server.workspace.plan import Plan

_READS: Final = frozenset({"read", "secret_read", "write"})
"""Effects whose results may show something of the file they name; an edit that fails quotes it."""
_LOOKS_EVERYWHERE: Final = frozenset({"search", "execute", "install"})
"""Effects that could read every file of the worktree that is not hidden from them."""


def workspace_label(state: SessionState) -> LabelRecord:
    """The label of what lies in the session's workspace by itself."""
    integrity = 1 if state.trust_level in ("trusted", "restricted") else 2
    return LabelRecord(integrity=integrity, readers=None, provenance=("workspace",))


def confidential(state: SessionState, source: str) -> LabelRecord:
    """The label of what the user let the model read and nobody else: its provider alone is a reader."""
    readers = (provider_reader(state.provider),)
    return LabelRecord(integrity=0, readers=readers, provenance=(source,))


def tree_label(actor: Actor) -> LabelRecord:
    """The label of the whole worktree: the workspace's, what calls wrote, what earlier sessions left."""
    return join_all_labels(workspace_label(actor.state), _tree_readers(actor))


def written_label(actor: Actor) -> LabelRecord:
    """The label of what the agent has written in the worktree: it chose it, knowing what it had read."""
    return join_all_labels(actor.state.label, tree_label(actor))


async def result_label(actor: Actor, call: Call, done: Performed) -> LabelRecord:
    """The label under which a result enters the context, its name, its exit code and its length included."""
    await actor.room.labels.ready()
    effects = call.started.effects if call.started is not None else ()
    found = [await _read_label(actor, one) for one in effects]
    if actor.room.redactor.mark in done.text:
        found.append(confidential(actor.state, f"secret-like:{call.tool}"))
    return join_all_labels(actor.state.label, done.label, *found)


async def carried_label(actor: Actor, effects: Iterable[EffectRecord]) -> LabelRecord:
    """The label of what a call could read of the worktree by these effects, whatever it names as a secret beside.

    What it names is asked about by its name; this is what lies under other names.
    """
    await actor.room.labels.ready()
    found = [
        _tree_readers(actor) if one.kind in _LOOKS_EVERYWHERE else await _kept_label(actor, one) for one in effects
    ]
    return join_all_labels(*found)


async def sent_label(actor: Actor) -> LabelRecord:
    """Who may read the session's copy of the folder as it lies there, what earlier sessions labelled included."""
    await actor.room.labels.ready()
    return _tree_readers(actor)


def _tree_readers(actor: Actor) -> LabelRecord:
    book = actor.room.labels
    return join_all_labels(*actor.state.file_labels.values(), *(book.below(root) for root in _roots(actor)))


def _roots(actor: Actor) -> tuple[str, ...]:
    """The folder by its real path, under which labels are noted, and as the session was given it: older ones are."""
    workspace = actor.opened_workspace
    real = str(workspace.root) if workspace is not None else actor.state.root
    return tuple(dict.fromkeys((real, actor.state.root)))


async def _noted_label(actor: Actor, path: str) -> LabelRecord:
    """What sessions noted of a file of the folder, and of its content under whatever name."""
    digest = await _digest(actor, path)
    return join_all_labels(*(actor.room.labels.of(posixpath.join(root, path), digest) for root in _roots(actor)))


async def _kept_label(actor: Actor, effect: EffectRecord) -> LabelRecord | None:
    if effect.kind != "read":
        return None
    return join_all_labels(actor.state.file_labels.get(effect.target), await _noted_label(actor, effect.target))


async def _read_label(actor: Actor, effect: EffectRecord) -> LabelRecord | None:
    state, room = actor.state, actor.room
    if effect.kind in _LOOKS_EVERYWHERE:
        return tree_label(actor)
    if effect.kind not in _READS:
        return None
    kept = effect.kind == "secret_read" or room.session_rules.reading(state.rules).is_kept(effect.target)
    return join_all_labels(
        workspace_label(state),
        confidential(state, f"secret:{effect.target}") if kept else None,
        state.file_labels.get(effect.target),
        await _noted_label(actor, effect.target),
    )


async def _digest(actor: Actor, path: str) -> str | None:
    """The hash of a file's content, where one was ever labelled; what cannot be read has none."""
    if actor.room.labels.is_empty:
        return None
    try:
        return await actor.workspace.digest(path)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return None


async def note_labels(actor: Actor, plan: Plan) -> None:
    """Before a decision is carried out: remember the labels of what it puts into the user's files."""
    await actor.room.labels.ready()
    await actor.room.labels.note(actor.session_id, tuple(_labelled(actor, plan)))


async def note_found(actor: Actor) -> None:
    """Remember for the folder what its files hold of contents that were labelled, in whatever folder and by what name.

    To be called when the session's base is there and when it moved: from then on the label is the folder's, also when
    those files are edited. Raises JournalError (NOT_SAVED, DATA_FULL).
    """
    book, workspace = actor.room.labels, actor.opened_workspace
    await book.ready()
    if workspace is None or book.is_empty or workspace.base is actor.base_labelled:
        return
    base = workspace.base
    label = book.among(one.digest for one in base.values())
    if label is not None:
        await book.note(actor.session_id, (LabelledFile(path=str(workspace.root), digest=None, label=label),))
    actor.base_labelled = base


def _labelled(actor: Actor, plan: Plan) -> Iterator[LabelledFile]:
    """What the session wrote; and what is made from a content that was labelled and no session took over yet."""
    state, book, root = actor.state, actor.room.labels, _roots(actor)[0]
    decided = {one.path: state.changes.get(one.change_id) for one in plan.decided}
    before = {step.path: step.before.digest for step in plan.user_steps if step.before is not None}
    for step in plan.user_steps:
        change = decided.get(step.path)
        origin = change.renamed_from if change is not None else None
        written = state.file_labels.get(step.path) or state.file_labels.get(origin or "")
        found = book.among(before[path] for path in (step.path, origin) if path in before)
        if written is not None or found is not None:
            digest = step.after.digest if step.after is not None else None
            label = join_all_labels(written, found)
            yield LabelledFile(path=posixpath.join(root, step.path), digest=digest, label=label)
