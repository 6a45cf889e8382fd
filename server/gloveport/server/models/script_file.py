"""The file format of the scripted provider.

Purpose: the shapes of a script (steps with conditions on the conversation) and errors that name line or field.
Invariant: a loaded script is complete and within its limits; playing it can fail only where it says so itself.
Must never: be taken from a workspace (the caller passes a path of the user's own settings), or hold chance.

A script is JSON, or TOML when the file's name ends so:

    name = "demo"

    [[steps]]
    when = { user_contains = "fix", turn = 0 }
    text = "Reading."
    calls = [{ name = "read_file", arguments = { path = "a.py" } }]

    [[steps]]
    when = { last_tool = "read_file" }
    text = "Done."
"""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gloveport.server.models.contract import ErrorClass, Fate, ModelError
from gloveport.server.models.failures import model_error

SCRIPT_BYTES_MAX: Final = 4 * 1024 * 1024
STEPS_MAX: Final = 2_000
CALLS_PER_STEP_MAX: Final = 32
DELAY_MS_MAX: Final = 600_000
TEXT_CHARS_MAX: Final = 1_000_000
_FALLBACK_TEXT: Final = "This scripted model has no step for this point of the conversation."
_ERRORS_SHOWN_MAX: Final = 5

Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class When(_Shape):
    """All conditions given must hold. `turn` counts the model's replies since the last words of the user.

    The conditions on results speak of the newest results alone, those of the model's latest reply: one of them must
    fit all that are given (`last_tool` names its tool).
    """

    turn: Count | None = None
    turns_total: Count | None = None
    user_contains: Text | None = None
    last_tool: Text | None = None
    result_contains: Text | None = None
    result_matches: Text | None = None
    result_is_error: bool | None = None
    offers_tool: Text | None = None


class ScriptedCall(_Shape):
    """A tool call. A string as arguments goes out raw, so that broken arguments can be played.

    Anywhere in an object, `{"$from": {"tool": "search", "regex": "line (\\d+)"}}` stands for the first
    group of the pattern in the latest result of that tool (of any tool, when none is named).
    """

    name: Annotated[str, Field(max_length=256)]
    arguments: dict[str, object] | str = Field(default_factory=dict)


class ScriptedUsage(_Shape):
    """Tokens a step claims; where a step has none, four characters count as one token."""

    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count = 0


class ScriptedError(_Shape):
    """A failure played after the parts of its step."""

    error_class: ErrorClass = Field(strict=False)
    message: Text = "a failure of the script"
    retry_after_s: Annotated[float, Field(ge=0, le=86_400, strict=False)] | None = None


class Step(_Shape):
    """One reply of the model. `delay_ms` passes before each chunk of `chunk_chars` characters.

    With `wait_for_file`, the reply stops after `wait_after_chunks` chunks until that file exists; a relative path
    is taken from the script's own folder.
    """

    when: When = Field(default_factory=When)
    reasoning: Text = ""
    text: Text = ""
    calls: Annotated[list[ScriptedCall], Field(max_length=CALLS_PER_STEP_MAX)] = Field(default_factory=list)
    usage: ScriptedUsage | None = None
    stop: Literal["end", "length", "refusal"] = "end"
    error: ScriptedError | None = None
    chunk_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    delay_ms: Annotated[int, Field(ge=0, le=DELAY_MS_MAX)] = 0
    wait_for_file: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    wait_after_chunks: Count = 0


class Script(_Shape):
    """A whole script: the first step whose conditions hold is played, else the fallback, so it never
    dead-ends. `lookup` is what the script's provider says later of a request that it took; null: it cannot say.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    steps: Annotated[list[Step], Field(max_length=STEPS_MAX)]
    fallback: Step = Field(default_factory=lambda: Step(text=_FALLBACK_TEXT))
    lookup: Fate | None = Field(default=None, strict=False)


def parse_script(data: bytes, origin: str) -> Script:
    """A script from its bytes; `origin` names them in errors, and says by its ending whether they are TOML. Raises
    `ModelError` (config).
    """
    if len(data) > SCRIPT_BYTES_MAX:
        raise _wrong(origin, f"is larger than {SCRIPT_BYTES_MAX} bytes")
    read: Callable[[str], object] = tomllib.loads if origin.endswith(".toml") else json.loads
    try:
        raw = read(data.decode())
    except json.JSONDecodeError as err:
        raise _wrong(origin, f"line {err.lineno}, column {err.colno}: {err.msg}") from err
    except tomllib.TOMLDecodeError as err:
        raise _wrong(origin, str(err)) from err
    except (UnicodeDecodeError, RecursionError) as err:
        raise _wrong(origin, "is no UTF-8 text of reasonable depth") from err
    try:
        return Script.model_validate(raw)
    except ValidationError as err:
        found = err.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{_field(e['loc'])}: {e['msg']}" for e in found[:_ERRORS_SHOWN_MAX]]
        raise _wrong(origin, "; ".join(lines)) from err


def load_script(path: Path) -> Script:
    """A script from a file of the user. Raises `ModelError` (config)."""
    try:
        with path.open("rb") as file:
            return parse_script(file.read(SCRIPT_BYTES_MAX + 1), str(path))
    except OSError as err:
        raise _wrong(str(path), f"cannot be read: {err.strerror}") from err


def _field(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".") or "script"


def _wrong(origin: str, what: str) -> ModelError:
    return ModelError(
        model_error(ErrorClass.CONFIG, "").code,
        f"script {origin}: {what}",
        error_class=ErrorClass.CONFIG,
        hint="Mend the script named in your user settings.",
    )
