"""Which files of the worktree a command line names, whatever their spelling.

Purpose: bind an approval to what the named files hold, and tell which of them it can't be bound to.
Invariant: a name that may lead to a file of the worktree is bound by its digest, or told as one that is not.
Must never: take a file that can't be read for one that is not there.
"""

import errno
import os
import posixpath
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.facade import SessionWorkspace

NAMES_MAX: Final = 8_192
"""Names that are looked for in the worktree."""
FILES_MAX: Final = 256
"""Files that are read. With more of either the call can't be bound, and it is told."""
CLUSTER_CHARACTERS_MAX: Final = 256
FOLDERS_ENTERED_MAX: Final = 8
TOO_MANY: Final = "more names than can be looked at"

CHOSEN_LATER: Final = "names that its shell makes up when it runs"
"""Variables, patterns and folders entered one after another: what they lead to is not known before."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox"})
_MADE_UP: Final = re.compile(r"[$`*?\[{~]|\b(?:cd|pushd)\b.*\b(?:cd|pushd|popd)\b", re.DOTALL)
_READ_UNNAMED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
        **dict.fromkeys(("npm", "npx", "yarn", "pnpm"), ("package.json",)),
        **dict.fromkeys(("node", "nodejs"), ("package.json",)),
        **dict.fromkeys(("pytest", "py.test"), ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "conftest.py")),
        "tox": ("tox.ini", "pyproject.toml", "setup.cfg"),
        "just": ("justfile", ".justfile", "Justfile"),
        "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
        "cargo": ("Cargo.toml", "build.rs"),
        "cmake": ("CMakeLists.txt",),
        "docker-compose": ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
    }
)
"""Programs, and the files that they read or run though nobody names them."""
_MAKES: Final = frozenset({"make", "gmake"})
_INCLUDES: Final = re.compile(r"^ *[-s]?include[ \t]+([^#\n]*)", re.MULTILINE)
INCLUDED_LATER: Final = "files that a makefile includes by a name it makes up"
_FOLDERS_READ_MAX: Final = 16
_NO_PATH: Final = re.compile(r"[\s'\"`$(){}\[\]<>|&;,=:*?!\\#^]+")
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_OTHER_WAY: Final = re.compile(r"(?:-\w*)?/[./]*(?:proc|dev/fd)/")
"""Links of the kernel's own, by which a process comes to its folder under another name."""
_PARTS_OF_FOLDER: Final = ("__init__.py", "__main__.py")
_PARTS_OF_MODULE: Final = (".py", *(f"/{one}" for one in _PARTS_OF_FOLDER))


@dataclass(frozen=True, slots=True)
class BoundFiles:
    """`digests`: (path, SHA-256) of what is named. `unbound`: what is named and can't be bound, as it was spelled."""

    digests: tuple[tuple[str, str], ...] = ()
    unbound: tuple[str, ...] = ()


async def bind_files(argv: tuple[str, ...], root: str, workspace: SessionWorkspace, cwd: str = "") -> BoundFiles:
    """What a command line names. `root` is the worktree's path as the program sees it, `cwd` its folder below."""
    named, unbound = await anyio.to_thread.run_sync(_named, argv, root, workspace.worktree, cwd)
    there, said = list(named), dict.fromkeys(word for one in argv for word in spellings(one))
    makes = any(posixpath.basename(word) in _MAKES for word in said)
    folders = (cwd, *(posixpath.join(cwd, one.removeprefix("-I")) for one in islice(said, _FOLDERS_READ_MAX)))
    digests: dict[str, str] = {}
    for at, path in enumerate(there):  # it grows by what makefiles include
        if at == FILES_MAX:
            unbound.append(TOO_MANY)
            break
        try:
            digest = await workspace.digest(path)
            included = _included(await workspace.read(path), path, folders) if makes and digest is not None else ()
        except GloveportError as error:
            if not await _leads_past(path, error.code, workspace):
                unbound.append(path)
            continue
        if digest is not None:
            digests[path] = digest
        unbound += [INCLUDED_LATER] if None in included and INCLUDED_LATER not in unbound else []
        there += [one for one in included if one is not None and one not in there]
    return BoundFiles(tuple(sorted(digests.items())), tuple(unbound))


def _included(makefile: bytes, path: str, folders: tuple[str, ...]) -> tuple[str | None, ...]:
    """What a makefile includes, from its own folder and from these; None: by a name that it makes up."""
    text = makefile.decode("utf-8", "replace").replace("\\\n", " ")
    words = (word for line in _INCLUDES.findall(text) for word in line.split())
    found = dict.fromkeys(
        None if _MADE_UP.search(word) else posixpath.normpath(posixpath.join(folder, word))
        for word in words
        for folder in dict.fromkeys((posixpath.dirname(path), *folders))
    )
    return tuple(one for one in found if one is None or not one.startswith(("/", "..")))


def _named(argv: tuple[str, ...], root: str, worktree: Path, cwd: str) -> tuple[tuple[str, ...], list[str]]:
    """Named paths of the worktree that may be there, and what can't be bound whatever is there."""
    names = dict.fromkeys(path for word in (*argv, *_unnamed(argv)) for path in _paths_of(word, root, cwd))
    unbound = dict.fromkeys(one for word in argv for one in spellings(word) if _OTHER_WAY.match(one))
    unbound |= dict.fromkeys((CHOSEN_LATER,) if _is_made_up(argv) else ())
    there = tuple(path for path in islice(names, NAMES_MAX) if _may_be_there(worktree, path))
    return there, [*unbound, *([TOO_MANY] if len(names) > NAMES_MAX else [])]


def _is_made_up(argv: tuple[str, ...]) -> bool:
    """Whether a shell is given text whose names it makes up itself."""
    at = next((at for at, word in enumerate(argv) if posixpath.basename(word) in _SHELLS), None)
    return at is not None and any(_MADE_UP.search(word) for word in argv[at + 1 :])


def _unnamed(argv: tuple[str, ...]) -> Iterator[str]:
    """Files that a program in the line reads of itself, in each folder that the line may send it to."""
    said = dict.fromkeys(one for word in argv for one in (word, *spellings(word)))
    read = dict.fromkeys(file for one in said for file in _READ_UNNAMED.get(posixpath.basename(one), ()))
    folders = ("", *islice((one.removeprefix("-C") for one in said if one), _FOLDERS_READ_MAX)) if read else ()
    yield from (posixpath.join(folder, file) for folder in folders for file in read)


def spellings(word: str) -> tuple[str, ...]:
    """Everything in a word that may be the name of a file or a module, the word itself first."""
    found = [word, *_text_words(word), *_NO_PATH.split(word)]
    return tuple(dict.fromkeys(one for one in found if one))


def _text_words(word: str) -> Iterator[str]:
    """The words of shell text without their quotes, as far as it can be read."""
    lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        yield from lexer
    except ValueError:
        return


def _paths_of(word: str, root: str, cwd: str) -> Iterator[str]:
    """Paths from the worktree's top that a word may stand for."""
    said = spellings(word)
    folders = [cwd]
    if "cd" in said[1:]:
        folders += [one for one in said[1:] if one[0] != "-" and one != "cd"][:FOLDERS_ENTERED_MAX]
    for one in said:
        cluster = one[1 : CLUSTER_CHARACTERS_MAX + 1] if one[0] == "-" and one[:2] != "--" else ""
        for name in (one, *(cluster[at:] for at in range(len(cluster)))):
            for folder in folders:
                yield from _forms(posixpath.join(root, cwd, folder, name), root)
            if _MODULE.fullmatch(name):
                yield from _files_of_module(posixpath.normpath(posixpath.join(cwd, name.replace(".", "/"))))


def _files_of_module(path: str) -> Iterator[str]:
    while path:
        yield from (f"{path}{part}" for part in _PARTS_OF_MODULE)
        path = posixpath.dirname(path)


def _forms(full: str, root: str) -> Iterator[str]:
    """A full path from the worktree's top: without `..` by its name, and as it is where a link may stand before it."""
    plain = _below(posixpath.normpath(full), root)
    if plain is not None:
        yield from (one for one in (plain, *(posixpath.join(plain, each) for each in _PARTS_OF_FOLDER)) if one)
    parts = [part for part in full.split("/") if part not in {"", "."}]
    for at in range(len(parts)):  # wherever the way comes to the root, what follows is looked at as it stands
        if ".." in parts[at + 1 :] and _below(posixpath.normpath("/" + "/".join(parts[: at + 1])), root) == "":
            yield "/".join(parts[at + 1 :])


def _below(full: str, root: str) -> str | None:
    """The path below the root, empty for the root itself; None for one that does not begin with it."""
    full, root = f"/{full.lstrip('/')}", root.rstrip("/")
    if full == root:
        return ""
    return full[len(root) + 1 :] if full.startswith(f"{root}/") else None


def _may_be_there(worktree: Path, path: str) -> bool:
    """False only where it is certain: a part of it is not there. What is behind a link is left to the workspace."""
    if "\0" in path:
        return False
    here = str(worktree)
    for part in path.split("/"):
        here = f"{here}/{part}"
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
        except OSError as error:
            return error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
        if is_link:
            return True
    return ".." not in path.split("/")  # without a link before it, its plain form says the same


async def _leads_past(path: str, code: ErrorCode, workspace: SessionWorkspace) -> bool:
    """True where the path is no file of the worktree: a folder of it, or nothing but a way out by its name."""
    if code is ErrorCode.OUTSIDE_WORKSPACE:
        return path.startswith("../") and posixpath.normpath(path).startswith("..")
    if code is not ErrorCode.NOT_A_FILE:
        return False
    try:
        real = await workspace.resolve(path)
    except GloveportError:
        return posixpath.normpath(path) == "."
    return await anyio.to_thread.run_sync(os.path.isdir, workspace.worktree / real)
