"""Write, or compare, all that is generated from the protocol: schemas, TypeScript, golden messages, the reference.

Usage: scripts/schema.py --write | --check | --freeze

Purpose: one source (the Python models) for every description of the wire, the journal and the jail.
Invariant: the same tree gives the same bytes; a golden file named in tests/golden/frozen.json is never written again.
Must never: change a file without naming it on standard output.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scripts.event_samples import missing, record
from scripts.schema_golden import DIALECTS, GOLDEN_FOLDER, plan_golden
from scripts.schema_json import describe_jail, describe_journal, describe_wire
from scripts.schema_reference import render_reference
from scripts.schema_typescript import render_events, render_hidden, render_wire

from gloveport.server.policy.hidden import HIDDEN_RANGES

ROOT: Final = Path(__file__).resolve().parent.parent
FROZEN: Final = f"{GOLDEN_FOLDER}/frozen.json"
GENERATED_FOLDERS: Final = ("protocol/schema", "protocol/typescript")


def render_json(value: Mapping[str, Any]) -> str:
    """Stable JSON text: sorted keys, two spaces, real characters."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def render_all(root: Path) -> dict[str, str]:
    """Every generated file but the golden ones: path relative to the root, and text."""
    wire, journal, jail = describe_wire(), describe_journal(), describe_jail()
    return {
        "protocol/schema/wire.json": render_json(wire),
        "protocol/schema/journal.json": render_json(journal),
        "protocol/schema/jail.json": render_json(jail),
        "protocol/typescript/wire.ts": render_wire(wire),
        "protocol/typescript/events.ts": render_events(journal),
        "protocol/typescript/hidden.ts": render_hidden(HIDDEN_RANGES),
        "docs/reference.md": render_reference(root, wire, journal),
    }


def read_frozen(root: Path) -> dict[str, str]:
    """Golden files that belong to a release: name and digest."""
    path = root / FROZEN
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def digest_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def find_changes(root: Path) -> dict[str, str | None]:
    """What `--write` would do: path to new text, or to None for a file that is no longer wanted."""
    wanted: dict[str, str | None] = dict(render_all(root))
    for folder in GENERATED_FOLDERS:
        for path in sorted((root / folder).glob("*")):
            wanted.setdefault(path.relative_to(root).as_posix(), None)
    wanted.update(plan_golden(root, frozenset(read_frozen(root))))
    return {name: text for name, text in sorted(wanted.items()) if read_text(root / name) != text}


def read_text(path: Path) -> str | None:
    """The text of a file, or None."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def find_broken_freezes(root: Path) -> list[str]:
    """Frozen golden files that are gone or changed."""
    folder = root / GOLDEN_FOLDER
    return [
        name
        for name, digest in read_frozen(root).items()
        if not (folder / name).exists() or digest_file(folder / name) != digest
    ]


def write(root: Path) -> None:
    """Bring the tree up to date, naming each file."""
    for name, text in find_changes(root).items():
        path = root / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{'removed' if text is None else 'written'} {name}")
    for name in record(root):
        print(f"recorded {name}, for ever from its first release on")


def freeze(root: Path) -> None:
    """Record every golden file as part of a release; to be done once per release."""
    folder = root / GOLDEN_FOLDER
    paths = [path for dialect in DIALECTS for path in sorted((folder / dialect).glob("*.json"))]
    found = {path.relative_to(folder).as_posix(): digest_file(path) for path in paths}
    (root / FROZEN).write_text(render_json(found), encoding="utf-8")
    print(f"frozen {len(found)} golden files")


def main() -> int:
    """Parse and act; 1 when `--check` finds a difference."""
    parser = argparse.ArgumentParser(description="Generate from the protocol.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="bring the generated files up to date")
    choice.add_argument("--check", action="store_true", help="name what --write would change; change nothing")
    choice.add_argument("--freeze", action="store_true", help="record the golden files as released")
    arguments = parser.parse_args()
    broken = find_broken_freezes(ROOT)
    for name in broken:
        print(f"changed although released: {GOLDEN_FOLDER}/{name}")
    if broken:
        return 1
    if arguments.check:
        stale = [*find_changes(ROOT), *missing(ROOT)]
        for name in stale:
            print(f"stale: {name} (make schema)")
        return 1 if stale else 0
    if arguments.write:
        write(ROOT)
    else:
        freeze(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
