"""The documents name what exists, and nothing else.

Purpose: names, paths, invariants and the changelog's form are checked against the tree.
Invariant: each check takes the tree and a `Surface`, so that it can be turned on a small tree with a planted fault.
Must never: be silent because a document is missing.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ARCHITECTURE_LINES_MAX: Final = 300
DOCUMENTS: Final = ("README.md", "ARCHITECTURE.md")
REFERENCE: Final = "docs/reference.md"
CHANGELOG: Final = "CHANGELOG.md"
CODE_SPAN: Final = re.compile(r"`([^`\n]+)`")
LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FENCE: Final = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
METHOD: Final = re.compile(r"[a-z]+(?:/[a-z][A-Za-z]*)+")
ERROR_CODE: Final = re.compile(r"[a-z]+\.[a-z_]+")
DOTTED: Final = re.compile(r"gloveport\.[A-Za-z.]+")
TREE_PATH: Final = re.compile(
    r"(?:protocol|sandbox|server|client-vscode|tests|scripts|docs|requirements)/[\w./-]*[\w/]"
)
COMMAND: Final = re.compile(r"(?<![\w./-])gloveport (?P<words>[a-z][a-z-]*(?: [a-z][a-z-]*)?)")
TARGET: Final = re.compile(r"(?<![\w./-])make (?P<name>[a-z][a-z0-9-]*)")
INVARIANT: Final = re.compile(r"\bINV-(\d+)\b")
TEST_NAME: Final = re.compile(r"(tests/[\w./-]+\.py)::([\w:]+)")
RELEASE: Final = re.compile(r"## \[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d{2}-\d{2}")
SECTIONS: Final = frozenset({"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})
FILE_ENDINGS: Final = frozenset({"db", "jsonl", "py", "ts", "json", "md", "toml", "lock", "mjs", "sock", "token"})


@dataclass(frozen=True)
class Surface:
    """Every name that exists, by kind."""

    methods: frozenset[str]
    codes: frozenset[str]
    commands: frozenset[str]
    settings: frozenset[str]
    targets: frozenset[str]
    editor: frozenset[str]
    modules: frozenset[str]


def read_document(root: Path, name: str) -> str:
    """A document's text; empty when it is missing, which `check_documents_exist` tells."""
    path = root / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def check_documents_exist(root: Path, surface: Surface) -> list[str]:
    """Documents that are missing, and a README that does not lead to the rest."""
    names = (*DOCUMENTS, REFERENCE, CHANGELOG)
    faults = [f"{name}: missing" for name in names if not (root / name).exists()]
    readme = read_document(root, "README.md")
    wanted = ("make demo", "make test", REFERENCE, "ARCHITECTURE.md")
    return faults + [f"README.md: does not name {name}" for name in wanted if name not in readme]


def check_links(root: Path, surface: Surface) -> list[str]:
    """Links and pictures that lead to no file of the tree; addresses elsewhere are not followed."""
    return [
        f"{name}: no file {target}"
        for name in (*DOCUMENTS, *_list_docs(root))
        for target in LINK.findall(read_document(root, name))
        if ":" not in target and not (root / name).parent.joinpath(target).exists()
    ]


def list_code(text: str) -> Iterator[str]:
    """What stands in code spans and fenced blocks, line by line."""
    for block in FENCE.findall(text):
        yield from block.splitlines()
    yield from CODE_SPAN.findall(FENCE.sub("", text))


def check_named_things_exist(root: Path, surface: Surface) -> list[str]:
    """Methods, codes, commands, targets, dotted names and paths in code spans that do not exist."""
    faults = []
    for name in (*DOCUMENTS, *_list_docs(root)):
        for piece in list_code(read_document(root, name)):
            faults += [f"{name}: {fault}" for fault in _piece_faults(root, piece.strip(), surface)]
    return sorted(set(faults))


def _list_docs(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "docs").glob("*.md"))


def _piece_faults(root: Path, piece: str, surface: Surface) -> Iterator[str]:
    rooms = {method.partition("/")[0] for method in surface.methods}
    if METHOD.fullmatch(piece) and piece.partition("/")[0] in rooms and piece not in surface.methods:
        yield f"no method {piece}"
    if ERROR_CODE.fullmatch(piece) and _is_code_like(piece, surface) and piece not in surface.codes:
        yield f"no error code {piece}"
    if DOTTED.fullmatch(piece) and piece not in surface.editor | surface.modules:
        yield f"no setting, command or module {piece}"
    if TREE_PATH.fullmatch(piece) and piece not in surface.methods and not (root / piece).exists():
        yield f"no file {piece}"
    for found in COMMAND.finditer(piece):
        first = found["words"].partition(" ")[0]
        known = {command.partition(" ")[0] for command in surface.commands}
        if found["words"] not in surface.commands and first not in known:
            yield f"no command gloveport {first}"
    yield from (f"no target make {m['name']}" for m in TARGET.finditer(piece) if m["name"] not in surface.targets)


def _is_code_like(piece: str, surface: Surface) -> bool:
    room, _, rest = piece.partition(".")
    known = {code.partition(".")[0] for code in surface.codes}
    return room in known and rest not in FILE_ENDINGS and piece not in surface.settings


def check_everything_is_named(root: Path, surface: Surface) -> list[str]:
    """Names that exist and are in no table of the reference."""
    named = set(CODE_SPAN.findall(read_document(root, REFERENCE)))
    wanted: list[Iterable[str]] = [
        surface.methods, surface.codes, surface.settings, surface.editor,
        (f"gloveport {command}" for command in surface.commands), (f"make {target}" for target in surface.targets),
    ]  # fmt: skip
    return [f"{REFERENCE}: {name} is not named" for kind in wanted for name in sorted(kind) if name not in named]


def check_invariants(root: Path, surface: Surface) -> list[str]:
    """ARCHITECTURE.md too long, two invariants of one number, none at all, or one without a test that exists."""
    text = read_document(root, "ARCHITECTURE.md")
    lines = text.count("\n")
    faults = [f"ARCHITECTURE.md: {lines} lines, at most {ARCHITECTURE_LINES_MAX}"] * (lines > ARCHITECTURE_LINES_MAX)
    numbers = []
    for number, body in split_invariants(text):
        numbers.append(number)
        tests = TEST_NAME.findall(body)
        if not tests:
            faults.append(f"ARCHITECTURE.md: INV-{number} names no test")
        faults += [
            f"ARCHITECTURE.md: INV-{number}: no test {path}::{name}"
            for path, name in tests
            if not has_test(root, path, name)
        ]
    every = INVARIANT.findall(text)  # also those that stand within a line
    if len(set(every)) != len(every) or not numbers:
        twice = sorted({number for number in every if every.count(number) > 1})
        faults.append(f"ARCHITECTURE.md: not each invariant has a number of its own: {numbers and twice}")
    return faults


def split_invariants(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each invariant: from a line that begins with its number to the next one, a gap or a head."""
    number, body = 0, ""
    for line in [*text.splitlines(), ""]:
        found = INVARIANT.match(line.lstrip(" -*|#`"))
        if number and (found or not line.strip() or line.startswith("#")):
            yield number, body
            number, body = 0, ""
        if found:
            number, body = int(found[1]), line
        elif number:
            body += "\n" + line
    if number:
        yield number, body


def has_test(root: Path, path: str, name: str) -> bool:
    """Whether the file defines the test (in a class when the name has two parts)."""
    file = root / path
    if not file.exists():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    *holders, last = name.split("::")
    for holder in holders:
        body = [inner for node in body if isinstance(node, ast.ClassDef) and node.name == holder for inner in node.body]
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == last for node in body)


def check_rooms_are_described(root: Path, surface: Surface) -> list[str]:
    """Rooms of the three packages that ARCHITECTURE.md does not name."""
    words = set(re.findall(r"[\w-]+", read_document(root, "ARCHITECTURE.md")))
    rooms = {
        path.parent.name
        for package in ("protocol", "sandbox", "server")
        for path in (root / package / "gloveport" / package).glob("*/__init__.py")
    }
    return [f"ARCHITECTURE.md: the room {room} is not described" for room in sorted(rooms - words)]


def check_changelog(root: Path, surface: Surface) -> list[str]:
    """A changelog out of its form: unreleased first, releases falling, known sections, no empty one."""
    lines = [line for line in read_document(root, CHANGELOG).splitlines() if line.strip()]
    heads = [line for line in lines if line.startswith("## ")]
    faults = [f"{CHANGELOG}: {head} has no [x.y.z] - date" for head in heads[1:] if not RELEASE.fullmatch(head)]
    if not lines or lines[0] != "# Changelog" or heads[:1] != ["## [Unreleased]"]:
        faults.append(f"{CHANGELOG}: begins with '# Changelog', then '## [Unreleased]'")
    versions = [tuple(map(int, found.groups())) for head in heads if (found := RELEASE.fullmatch(head))]
    if versions != sorted(set(versions), reverse=True):
        faults.append(f"{CHANGELOG}: releases do not fall")
    for line, following in zip(lines, [*lines[1:], "#"], strict=True):
        if line.startswith("### ") and line[4:] not in SECTIONS:
            faults.append(f"{CHANGELOG}: unknown section {line[4:]}")
        if line.startswith("### ") and not following.startswith("- "):
            faults.append(f"{CHANGELOG}: the section {line[4:]} is empty")
    return faults
