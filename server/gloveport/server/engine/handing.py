"""A plan's steps in editors.

Purpose: have open documents changed by their editors, see that they show it, and take it back when the rest fails.
Invariant: a document counts as changed when it shows the new text, whatever its editor answers; one that shows neither
text is told as suspect.
Must never: ask for an edit of a text that is not the one the plan was made on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.merge import merge_texts
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.editors import Editors, OpenDocument, Wanted
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.opened import text_of
from gloveport.server.workspace.plan import BufferStep, Plan
from gloveport.server.workspace.state import FileState

ANSWER_S_MAX: Final = 30.0
"""How long an editor may take to answer; it may ask its user first."""
SHOWN_S_MAX: Final = 5.0
"""How long after its answer a document may take to show the new text."""


@dataclass(frozen=True, slots=True)
class Handed:
    """One document's way; the plan's step, and both texts."""

    step: BufferStep
    name: str
    before: str
    after: str


async def hand_over(actor: Actor, plan: Plan) -> tuple[Handed, ...]:
    """Let editors make the plan's changes in what they show; all of them, or none.

    Raises WorkspaceError: `change.conflict` when nothing was changed, `change.unsettled` with the paths otherwise.
    """
    ways = [way for step in plan.buffers for way in await _ways(actor, step)]
    editors = actor.room.editors
    if not ways:
        return ()
    groups = _groups(editors, ways)
    done: list[Handed] = []
    for group in groups:
        refusal = await _changed(editors, f"Gloveport: {plan.action}", group)
        if refusal is not None:
            begun = [way for way in group if _shows(editors, way)]
            await take_back(actor, (*done, *begun))
            raise refusal
        done += group
    return tuple(done)


async def take_back(actor: Actor, handed: Sequence[Handed]) -> None:
    """Bring the former text back. Raises WorkspaceError `change.unsettled` where that cannot be seen."""
    editors = actor.room.editors
    back = [Handed(way.step, way.name, way.after, way.before) for way in handed if _shows(editors, way)]
    lost = [way.step.path for way in handed if not _shows(editors, way)]
    for group in _groups(editors, back):
        refusal = await _changed(editors, "Gloveport: taken back", group)
        if refusal is not None:
            lost += [way.step.path for way in group]
    if lost:
        raise _unsettled(lost, "could not be taken back in its editor")


async def _ways(actor: Actor, step: BufferStep) -> list[Handed]:
    before, after = await _text(actor, step.before), await _text(actor, step.after)
    if before is None or after is None:
        raise WorkspaceError(ErrorCode.CHANGE_CONFLICT, f"{step.path} is no text that an editor can be given")
    return [Handed(step, name, before, after) for name in step.documents]


async def _text(actor: Actor, end: FileState | None) -> str | None:
    data = None if end is None else await actor.workspace.content(end.digest)
    return None if data is None else text_of(data)


def _find(editors: Editors, name: str) -> OpenDocument | None:
    return next((each for each in editors.documents() if each.name == name), None)


def _groups(editors: Editors, ways: Sequence[Handed]) -> list[list[Handed]]:
    """By client, those of one client together: it may do them as one."""
    groups: dict[str, list[Handed]] = {}
    for way in ways:
        groups.setdefault(way.name.rpartition("/")[0], []).append(way)
    return list(groups.values())


async def _changed(editors: Editors, label: str, group: Sequence[Handed]) -> WorkspaceError | None:
    """Ask one client, and look; None when every document shows its new text."""
    wanted: list[Wanted] = []
    for way in group:
        document = _find(editors, way.name)
        if document is None or document.text != way.before:
            words = "was closed" if document is None else "changed"
            return _refused(way.step.path, f"it {words} in its editor meanwhile")
        wanted.append(Wanted(document, way.after))
    said: str | None = None
    try:
        said = await editors.edit(label, wanted, ANSWER_S_MAX)
    except TimeoutError:
        return _silent(editors, group)
    except GloveportError as error:
        said = error.message
    if await editors.until(lambda: all(_shows(editors, way) for way in group), SHOWN_S_MAX):
        return None
    suspects = [way.step.path for way in group if _is_suspect(editors, way)]
    if suspects:
        return _unsettled(suspects, "shows neither the old text nor the new one")
    path = next(way.step.path for way in group if not _shows(editors, way))
    return _refused(path, said or "its editor agreed to the change, and its text does not show it")


def _silent(editors: Editors, group: Sequence[Handed]) -> WorkspaceError | None:
    if all(_shows(editors, way) for way in group):
        return None
    paths = [way.step.path for way in group]
    return _unsettled(paths, f"its editor did not answer in {ANSWER_S_MAX:g} s and may still make the change")


def _shows(editors: Editors, way: Handed) -> bool:
    """True when the document shows the change, beside what its user typed since."""
    document = _find(editors, way.name)
    if document is None:
        return False
    if document.text == way.after:
        return True
    before, after, shown = (text.encode("utf-8", "surrogatepass") for text in (way.before, way.after, document.text))
    try:
        return merge_texts(before, after, shown, path=way.step.path) == shown
    except GloveportError:
        return False


def _is_suspect(editors: Editors, way: Handed) -> bool:
    """True when a part of the change may be in the document."""
    document = _find(editors, way.name)
    if document is None:
        return True
    if document.text == way.before or _shows(editors, way):
        return False
    wanted, shown = (
        {line.strip() for hunk in diff_hunks(way.before.encode(), text.encode(), "") for line in hunk.new_lines}
        for text in (way.after, document.text)
    )
    return bool((wanted & shown) - {b""}) or not wanted


def _refused(path: str, words: str) -> WorkspaceError:
    hint = "Look at the file in its editor, then decide again."
    return WorkspaceError(
        ErrorCode.CHANGE_CONFLICT, f"{path}: {words}; nothing was changed", hint=hint, path=path, paths=[path]
    )


def _unsettled(paths: Sequence[str], words: str) -> WorkspaceError:
    named = list(dict.fromkeys(paths))
    return WorkspaceError(ErrorCode.CHANGE_UNSETTLED, f"{', '.join(named[:10])}: {words}", paths=named)
