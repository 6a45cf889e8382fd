"""What is generated is fresh, and every golden message is read and written again without loss."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripts.schema import FROZEN, ROOT, find_broken_freezes, find_changes, freeze, write
from scripts.schema_golden import GOLDEN_FOLDER, list_messages
from scripts.schema_json import describe_jail, describe_journal, describe_wire

from gloveport.protocol.jail.replies import decode_exit, decode_status, encode_exit, encode_status
from gloveport.protocol.jail.requests import decode_request, encode_request
from gloveport.protocol.journal.events import REGISTRY, decode_body, encode_body
from gloveport.protocol.journal.upcast import upcast
from gloveport.protocol.wire.methods import METHODS, NOTIFICATIONS

GOLDEN = ROOT / GOLDEN_FOLDER
JAIL = {
    "RunRequest": lambda raw: encode_request(decode_request(raw)),
    "RunStatus": lambda raw: encode_status(decode_status(raw)),
    "RunExit": lambda raw: encode_exit(decode_exit(raw)),
}


def read(path: Path) -> dict[str, Any]:
    """A golden file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def keeps(new: Any, old: Any) -> bool:
    """Whether everything that `old` says is still said by `new`; fields may have been added."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and keeps(new[key], value) for key, value in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(keeps, new, old))
    return bool(new == old)


def list_golden(dialect: str) -> list[Path]:
    """The golden files of a dialect."""
    return sorted((GOLDEN / dialect).glob("*.json"))


def test_generated_files_are_fresh() -> None:
    """`make schema` would change nothing."""
    assert not find_changes(ROOT), "run: make schema"


def test_released_golden_files_are_untouched() -> None:
    """A released message keeps its bytes."""
    assert not find_broken_freezes(ROOT)


@pytest.mark.parametrize("path", list_golden("wire"), ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["full", "least"])
def test_wire_message_round_trips(path: Path, size: str) -> None:
    """Read as the wire reads it, written as the wire writes it: nothing is lost."""
    golden = read(path)
    name, side = golden["method"], golden["side"]
    model = NOTIFICATIONS[name] if side == "notification" else getattr(METHODS[name], side)
    message = model.model_validate_json(json.dumps(golden[size]))
    again = json.loads(message.model_dump_json(by_alias=True))
    assert keeps(again, golden[size])
    assert model.model_validate(again) == message


@pytest.mark.parametrize("path", list_golden("journal"), ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["full", "least"])
def test_event_round_trips(path: Path, size: str) -> None:
    """A payload of any version is read after its upcast and written without loss."""
    golden = read(path)
    body_type = REGISTRY[golden["type"]]
    payload = upcast(golden["type"], golden["version"], golden[size])
    body = decode_body(body_type, json.dumps(payload).encode())
    again = json.loads(encode_body(body))
    assert keeps(again, payload)
    assert decode_body(body_type, again) == body
    if golden["version"] == body_type.version and again.keys() == golden[size].keys():
        assert again == golden[size]


@pytest.mark.parametrize("path", list_golden("jail"), ids=lambda path: path.stem)
def test_jail_message_round_trips(path: Path) -> None:
    """A file of the run folder is read and written as it was."""
    golden = read(path)
    assert json.loads(JAIL[golden["message"]](json.dumps(golden["full"]).encode())) == golden["full"]


def test_every_message_has_a_golden_file() -> None:
    """Every method, notification, event and run folder file is there."""
    stems = {f"{path.parent.name}/{path.stem.rpartition('.')[0]}" for path in GOLDEN.glob("*/*.json")}
    assert {stem for stem, _ in list_messages()} <= stems


@pytest.mark.parametrize("document", [describe_wire(), describe_journal(), describe_jail()], ids=lambda d: d["title"])
def test_schema_holds_together(document: dict[str, Any]) -> None:
    """Every reference of a schema is defined in it."""
    text = json.dumps(document)
    wanted = {part.partition('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert wanted <= document["$defs"].keys()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A tree with all that the generator reads and writes."""
    for name in ("protocol/schema", "protocol/typescript", "tests/golden", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Makefile", "client-vscode/package.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    write(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["protocol/schema/wire.json", "protocol/typescript/wire.ts", "docs/reference.md",
             "tests/golden/journal/TurnStarted.1.json", "tests/golden/wire/turn.start.params.1.json"],
)  # fmt: skip
def test_stale_file_is_named_and_mended(copy: Path, name: str) -> None:
    """A changed or missing generated file is seen, and written again."""
    assert find_changes(copy) == {}
    good = (copy / name).read_text(encoding="utf-8")
    (copy / name).write_text(good + " ", encoding="utf-8")
    assert list(find_changes(copy)) == [name]
    (copy / name).unlink()
    assert list(find_changes(copy)) == [name]
    write(copy)
    assert (copy / name).read_text(encoding="utf-8") == good


def test_file_of_nothing_is_removed(copy: Path) -> None:
    """A leftover of a message that is gone does not stay."""
    (copy / "tests/golden/journal/Gone.1.json").write_text("{}", encoding="utf-8")
    (copy / "protocol/schema/old.json").write_text("{}", encoding="utf-8")
    assert set(find_changes(copy).values()) == {None}
    write(copy)
    assert find_changes(copy) == {}


def test_released_message_gets_a_new_file_beside_it(copy: Path) -> None:
    """After a release a changed shape adds a file, and changing the old one is told."""
    old = copy / "tests/golden/journal/TurnStarted.1.json"
    shape = json.loads(old.read_text(encoding="utf-8"))
    del shape["full"]["message_id"]
    old.write_text(json.dumps(shape), encoding="utf-8")  # as an earlier version would have written it
    freeze(copy)
    assert (copy / FROZEN).exists()
    assert list(find_changes(copy)) == ["tests/golden/journal/TurnStarted.2.json"]
    kept = old.read_bytes()
    write(copy)
    assert old.read_bytes() == kept
    assert find_changes(copy) == {}
    assert find_broken_freezes(copy) == []
    old.write_bytes(kept + b" ")
    assert find_broken_freezes(copy) == ["journal/TurnStarted.1.json"]
