"""Record, once and for ever, what each version of each event looks like.

Usage: scripts/event_samples.py --record

Purpose: a sample and the shape of every version of every event that was ever written, for every later version to read.
Invariant: a recorded file is never written again; a version of an event has one file.
Must never: follow a changed shape: a changed shape is a new version.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scripts.schema_golden import Sampler
from scripts.schema_json import describe_journal

from gloveport.protocol.journal.events import REGISTRY, EventBody

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = "tests/golden/recorded"
_WORDS: Final = frozenset({"title", "description"})


def shape_of(body_type: type[EventBody]) -> Any:
    """The JSON schema of a body without its words: what a reader of its payloads relies on."""
    return _bare(body_type.model_json_schema())


def _bare(value: Any, *, names: bool = False) -> Any:
    if isinstance(value, dict):
        kept = value.items() if names else ((key, part) for key, part in value.items() if key not in _WORDS)
        return {key: _bare(part, names=key in ("properties", "$defs")) for key, part in kept}
    return [_bare(part) for part in value] if isinstance(value, list) else value


def samples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of every event in its newest version: the name of its file, and what it holds."""
    document = describe_journal()
    for name, row in sorted(document["events"].items()):
        stem = f"journal/{name}"
        full, least = (Sampler(document["$defs"], size).make(row["payload"], stem) for size in (True, False))
        yield (
            f"{name}.{row['version']}.json",
            {
                "type": name,
                "version": row["version"],
                "full": full,
                "least": least,
                "shape": shape_of(REGISTRY[name]),
            },
        )


def missing(root: Path) -> list[str]:
    """Files of versions that have no sample yet."""
    return [f"{FOLDER}/{name}" for name, _content in samples() if not (root / FOLDER / name).exists()]


def record(root: Path) -> list[str]:
    """Write the samples that are not there yet; their names."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    new = [(folder / name, content) for name, content in samples() if not (folder / name).exists()]
    for path, content in new:
        path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path.name for path, _content in new]


def main() -> int:
    """Parse and act."""
    parser = argparse.ArgumentParser(description="Record samples of events.")
    parser.add_argument("--record", action="store_true", required=True, help="record versions that have no sample yet")
    parser.parse_args()
    for name in record(ROOT):
        print(f"recorded {FOLDER}/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
