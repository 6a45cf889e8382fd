"""Golden messages: one full and one smallest example per message, kept as files.

Purpose: what one version wrote is kept, so that every later version can be shown to read it.
Invariant: an example is a pure function of the schema; a released file is never planned again;
a new shape of a released message gets a file with the next number.
Must never: overwrite a released file.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.schema_json import describe_jail, describe_journal, describe_wire

GOLDEN_FOLDER: Final = "tests/golden"
DIALECTS: Final = ("wire", "journal", "jail")
TEXT: Final = "é 漢 𝒳"
NUMBER: Final = 7


@dataclass(frozen=True)
class Sampler:
    """Makes examples from schemas; `full` fills every field, otherwise optional ones are left out and null wins."""

    defs: Mapping[str, Any]
    full: bool

    def make(self, schema: Mapping[str, Any], name: str) -> Any:
        """An example of `schema`; `name` gives the text its words."""
        if "$ref" in schema:
            return self.make(self.defs[schema["$ref"].rpartition("/")[2]], name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0 if self.full else -1]
        if "anyOf" in schema:
            return self.make(self._choose(schema["anyOf"]), name)
        kind = schema.get("type", "string")
        if kind == "array":
            return self._make_array(schema, name)
        return self._make_object(schema) if kind == "object" else self._make_plain(kind, schema, name)

    def _choose(self, parts: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        nulls = [part for part in parts if part.get("type") == "null"]
        others = [part for part in parts if part.get("type") != "null"]
        return others[0] if self.full or not nulls else nulls[0]

    def _make_array(self, schema: Mapping[str, Any], name: str) -> list[Any]:
        if "prefixItems" in schema:
            return [self.make(item, f"{name}_{index}") for index, item in enumerate(schema["prefixItems"])]
        count = max(schema.get("minItems", 0), 2 if self.full else 0)
        return [self.make(schema["items"], f"{name}_{index}") for index in range(count)]

    def _make_object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if "properties" not in schema:
            return {"key": TEXT} if self.full and schema.get("additionalProperties", True) else {}
        required = schema.get("required", ())
        return {
            field: self.make(inner, field)
            for field, inner in schema["properties"].items()
            if self.full or field in required
        }

    def _make_plain(self, kind: str, schema: Mapping[str, Any], name: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self.full
        if kind in {"integer", "number"}:
            low, high = schema.get("minimum", 0), schema.get("maximum", 2**53 - 1)
            value = min(max(low, NUMBER), high) if self.full else low
            return value if kind == "integer" else value + 0.5
        return self._make_text(schema, name)

    def _make_text(self, schema: Mapping[str, Any], name: str) -> str:
        if "pattern" in schema:
            return hashlib.sha256(name.encode()).hexdigest()
        if "contentEncoding" in schema:
            return "AAEC/w==" if self.full else ""
        if not self.full:
            return "x" * int(schema.get("minLength", 0))
        return f"{name} {TEXT}"


def list_messages() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every message of the three dialects: the stem of its golden file, and the file's content."""
    wire, journal, jail = describe_wire(), describe_journal(), describe_jail()
    for method, row in wire["methods"].items():
        for side in ("params", "result"):
            yield _pair(f"wire/{method.replace('/', '.')}.{side}", {"method": method, "side": side}, row[side], wire)
    for method, row in wire["notifications"].items():
        stem = f"wire/{method.replace('/', '.')}.notification"
        yield _pair(stem, {"method": method, "side": "notification"}, row["params"], wire)
    for name, row in journal["events"].items():
        yield _pair(f"journal/{name}", {"type": name, "version": row["version"]}, row["payload"], journal)
    for name, ref in jail["messages"].items():
        yield _pair(f"jail/{name}", {"message": name}, ref, jail)


def _pair(
    stem: str, head: dict[str, Any], ref: dict[str, Any], document: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    full, least = (Sampler(document["$defs"], full).make(ref, stem) for full in (True, False))
    return stem, {**head, "full": full, "least": least}


def plan_golden(root: Path, frozen: frozenset[str]) -> dict[str, str | None]:
    """Golden files to write (text) or to remove (None): unreleased ones follow the models, released ones stay."""
    folder = root / GOLDEN_FOLDER
    plan: dict[str, str | None] = {
        path.relative_to(root).as_posix(): None
        for dialect in DIALECTS
        for path in sorted((folder / dialect).glob("*.json"))
        if path.relative_to(folder).as_posix() not in frozen
    }
    for stem, content in list_messages():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        released = [name for name in frozen if name.rpartition(".")[0].rpartition(".")[0] == stem]
        if not any((folder / name).read_text(encoding="utf-8") == text for name in released):
            plan[f"{GOLDEN_FOLDER}/{stem}.{len(released) + 1}.json"] = text
    return plan
