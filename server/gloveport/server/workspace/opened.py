"""What editors show of the user's files.

Purpose: the user's side of a path: unsaved text where an editor holds some, else the file's bytes.
Invariant: text counts as the bytes that saving it would write; where that cannot be told, nothing may be written.
Must never: write, or choose between two different unsaved texts of one file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from hashlib import sha256
from pathlib import Path
from typing import Final

from gloveport.protocol.ids import Sha256
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import path_with_data
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.walk import Walk

NEW_FILE_MODE: Final = 0o644
_LEGACY: Final = ("cp1252", "latin-1", "gb18030", "shift_jis", "euc-kr", "big5")
"""Encodings in which an editor may show bytes that are no UTF-8."""
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class OpenText:
    """A document that is open in an editor: `path` is link-free below the root, `document` names it to its editor."""

    document: str
    path: str
    text: str
    editor: str
    can_edit: bool


@dataclass(frozen=True, slots=True)
class UserSide:
    """What the user has at a path. `documents` are those that take an edit; `refusal` is why nothing may be written."""

    found: FileState | None
    data: bytes | None
    unsaved: bool = False
    documents: tuple[str, ...] = ()
    refusal: str | None = None


@unique
class _Standing(StrEnum):
    SAVED = "saved"
    OTHERWISE = "otherwise"
    """The same words in other bytes: line ends or an encoding that the editor changed by itself."""
    UNSAVED = "unsaved"
    UNTOLD = "untold"


def user_side(
    root: Root, path: str, texts: Sequence[OpenText], limits: WorkspaceLimits, *, exact: bool = False
) -> UserSide:
    """The user's side of a link-free path; `exact`: under this very name."""
    found, data = path_with_data(root, path, limits, exact=exact)
    mine = [text for text in texts if text.path == path]
    if not mine or (found is not None and found.kind == "link"):
        return UserSide(found, data)
    standing = [(text, _standing(text.text, data)) for text in mine]
    untold = [text.editor for text, how in standing if how is _Standing.UNTOLD]
    if untold:
        return UserSide(found, data, refusal=f"it is open in {untold[0]}, and its encoding cannot be told")
    unsaved = [text for text, how in standing if how is _Standing.UNSAVED]
    if unsaved:
        return _unsaved_side(found, data, unsaved)
    ready = [text.document for text, how in standing if how is _Standing.SAVED and text.can_edit]
    return UserSide(found, data, documents=tuple(ready[:1]))


def user_bytes(folder: Path, path: str, texts: Sequence[OpenText], limits: WorkspaceLimits) -> bytes | None:
    """The bytes of what the user has at a link-free path below their folder (a link's target); None for nothing."""
    with Root(folder) as root:
        return user_side(root, path, texts, limits).data


def _unsaved_side(found: FileState | None, data: bytes | None, unsaved: Sequence[OpenText]) -> UserSide:
    editors = " and ".join(dict.fromkeys(text.editor for text in unsaved))
    contents = {_as_saved(text.text, data) for text in unsaved}
    if len(contents) > 1:
        return UserSide(found, data, refusal=f"{editors} hold different unsaved text of it")
    shown = contents.pop() or b""
    state = FileState("file", Sha256(sha256(shown).hexdigest()), NEW_FILE_MODE if found is None else found.mode)
    if not all(text.can_edit for text in unsaved):
        return UserSide(state, shown, unsaved=True, refusal=f"it is open with unsaved changes in {editors}")
    return UserSide(state, shown, unsaved=True, documents=tuple(text.document for text in unsaved))


def unsaved_texts(
    root: Root, state: WorkspaceState, texts: Sequence[OpenText], limits: WorkspaceLimits
) -> Mapping[str, tuple[FileState, bytes]]:
    """Where the user's words are in an editor alone: the content of the base, and new files that would be content."""
    return dict(_unsaved(root, state, texts, limits))


def _unsaved(
    root: Root, state: WorkspaceState, texts: Sequence[OpenText], limits: WorkspaceLimits
) -> Iterator[tuple[str, tuple[FileState, bytes]]]:
    for path in sorted({text.path for text in texts}):
        side = user_side(root, path, texts, limits)
        known = path in state.base or path in state.forced or (root.state(path) and Walk(root, limits).covers(path))
        if side.unsaved and known and side.found is not None and side.data is not None:
            yield path, (side.found, side.data)


def text_of(data: bytes) -> str | None:
    """What an editor shows of these bytes; None where that cannot be told."""
    form = sniff_form(data)
    return data[len(form.bom) :].decode(form.encoding.value) if form.editable else None


def takes_edit(before: bytes | None, after: bytes | None) -> bool:
    """True when any editor can make one text of the other: one kind of line end, and the end of file stays as it is."""
    if before is None or after is None:
        return False
    old, new = text_of(before), text_of(after)
    if old is None or new is None or sniff_form(before) != sniff_form(after):
        return False
    endings = {*_LINE_END.findall(old), *_LINE_END.findall(new)}
    same_end = bool(old and new) and old.endswith("\n") == new.endswith("\n")
    return len(endings) <= 1 and "\r" not in endings and same_end


def _as_saved(text: str, disk: bytes | None) -> bytes | None:
    form = sniff_form(disk or b"")
    if form.encoding in (Encoding.LEGACY, Encoding.BINARY):
        return None
    return form.bom + text.encode(form.encoding.value, "surrogatepass")


def _standing(text: str, disk: bytes | None) -> _Standing:
    saved = _as_saved(text, disk)
    if disk is not None and saved == disk:
        return _Standing.SAVED
    if _same_words(text, disk or b""):
        return _Standing.OTHERWISE
    return _Standing.UNTOLD if saved is None else _Standing.UNSAVED


def _same_words(text: str, disk: bytes) -> bool:
    """The same but for line ends and encoding; an editor may show an empty file as one empty line."""
    form = sniff_form(disk)
    encodings = _LEGACY if form.encoding in (Encoding.LEGACY, Encoding.BINARY) else (form.encoding.value,)
    plain = _LINE_END.sub("\n", text)
    for encoding in encodings:
        try:
            other = _LINE_END.sub("\n", disk[len(form.bom) :].decode(encoding))
        except UnicodeDecodeError:
            continue
        if other == plain or (not other and plain == "\n"):
            return True
    return False
