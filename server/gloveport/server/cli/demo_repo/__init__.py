"""The small repository of the demo, and the script that mends it.

Purpose: lay out a real repository with one failing test in a folder of the user's choice, again and again.
Invariant: only a folder that is new, empty or was laid out here is written to; each file is replaced whole.
Must never: follow a link out of the folder, or touch a folder of the user's own work.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError

SCRIPT: Final = Path(__file__).with_name("demo.toml")
"""The script for the scripted model."""

TASK: Final = "A test of tinystat fails. Find out why and mend it."
"""What the user of the demo asks for."""

MARKER: Final = ".tinystat-demo"
"""The file by which a folder is known as laid out here."""

_SUFFIX: Final = ".txt"
_MARKER_TEXT: Final = "Laid out by gloveport demo; running it again resets the files of tinystat.\n"


def materialise(target: Path) -> None:
    """Writes the repository, with its bug, into `target`, or resets one that was written there before; files of
    other names stay. Raises `GloveportError` for a folder that is somebody else's.
    """
    _claim(target)
    for name, text in sorted(repository_files().items()):
        path = target / name
        _make_folder(path.parent)
        _replace(path, text)


def repository_files() -> dict[str, str]:
    """The files of the repository by their paths in it."""
    return dict(_walk(Path(__file__).with_name("files"), PurePosixPath()))


def _walk(folder: Path, under: PurePosixPath) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, under / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield str(under / entry.name.removesuffix(_SUFFIX)), entry.read_text(encoding="utf-8")


def _claim(target: Path) -> None:
    """Makes the folder, or makes sure that it is one of ours. The marker comes first, so that a broken-off attempt
    is known again.
    """
    _make_folder(target)
    marker = target / MARKER
    if not (marker.is_file() and not marker.is_symlink()) and any(target.iterdir()):
        raise GloveportError(
            ErrorCode.UNSAFE_DIRECTORY,
            f"{target} holds files that are not the demo's",
            hint="Name a new or empty folder for the demo.",
        )
    _replace(marker, _MARKER_TEXT)


def _make_folder(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise GloveportError(
            ErrorCode.UNSAFE_DIRECTORY,
            f"{folder} is no folder of its own",
            hint="Name a new or empty folder for the demo.",
        )
    folder.mkdir(parents=True, exist_ok=True)


def _replace(path: Path, text: str) -> None:
    """Writes beside and moves into place, so that a link is replaced and not followed."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with beside.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(beside, path)
