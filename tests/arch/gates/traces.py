"""Words that do not belong into the product's tree.

Purpose: no machine's paths, no package host, no ticket's number, no note to oneself is committed.
Invariant: the forbidden words are written here in pieces, so that this file does not hold them itself.
"""

import re
from pathlib import Path
from typing import Final

from tests.arch.gates.tree import TEXT_SUFFIXES, walk_files

FILE_BYTES_MAX: Final = 2_000_000
NOTES: Final = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
_HOST_PATTERNS: Final = (
    r"py" + r"pi\.(?:org|io)",
    r"files\.python" + r"hosted\.org",
    r"registry\.(?:npm" + r"js\.org|yarnpkg\.com)",
    r"deb\.deb" + r"ian\.org",
    r"npm" + r"mirror\.com",
    r"js" + r"delivr\.net",
    r"un" + r"pkg\.com",
)
HOSTS: Final = re.compile(r"(?i)\b(?:" + "|".join(_HOST_PATTERNS) + r")")
MACHINE_PATHS: Final = re.compile(r"(?<![\w.])/(?:" + "|".join(("wo" + "rk", "ro" + "ot", "home/[a-z]+")) + r")/")
TICKETS: Final = re.compile(
    r"(?i)\b(?:issue|ticket|pr)\s*#?\d+\b|(?:^|[\s(])#\d{1,5}\b(?!,\d{3}\b)(?!\s*[;}])"
)  # but #1,302 is a place in a log
TICKETS_EXEMPT: Final = (".lock", ".css", ".html", "package-lock.json")
# A home folder in prose, in data of a test or in an example of a rule is an example, not a machine of ours.
PATH_EXAMPLE_FOLDERS: Final = ("docs/", "tests/", "README.md", "server/gloveport/server/policy/rules/")
EXAMPLE_PATHS: Final = re.compile(r"/home/(?:user|me|alice|bob|dev)/")
EXEMPT: Final = frozenset({"LICENSE", ".git"})  # in a linked work tree .git is a file


def check_traces(root: Path) -> list[str]:
    """Lines with a note to oneself, a ticket's number, a package host or a path of the machine they were written on."""
    faults = []
    for path in walk_files(root):
        relative = path.relative_to(root).as_posix()
        if path.suffix not in TEXT_SUFFIXES or path.name in EXEMPT or path.stat().st_size > FILE_BYTES_MAX:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            faults += [f"{relative}:{number}: {fault}" for fault in _line_faults(relative, line)]
    return faults


def _line_faults(relative: str, line: str) -> list[str]:
    """The faults of one line."""
    faults = []
    if NOTES.search(line) and not relative.endswith(".lock"):
        faults.append("a note to oneself")
    if TICKETS.search(line) and not relative.endswith(TICKETS_EXEMPT):
        faults.append("a ticket's number")
    if HOSTS.search(line):
        faults.append("a package host")
    if relative.startswith(PATH_EXAMPLE_FOLDERS):
        line = EXAMPLE_PATHS.sub("", line)
    if MACHINE_PATHS.search(line):
        faults.append("a path of a machine")
    return faults
