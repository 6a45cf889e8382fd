"""An agent of a few lines, without daemon, journal, policy or sandbox: a provider and tools that really work.

It lets a script be tried against real files and real tests. Tools are named and answer as those of the product do.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gloveport.server.models.contract import (
    AssistantTurn,
    ChatMessage,
    ModelRequest,
    Provider,
    Stop,
    TextDelta,
    ToolCallPart,
    ToolResultPart,
    UserText,
)

ROUNDS_MAX = 30
TESTS_TIMEOUT_S = 120


@dataclass(slots=True)
class Told:
    """A conversation that has ended: what the model said, reply by reply, and its calls with their results."""

    replies: list[str] = field(default_factory=list)
    calls: list[tuple[ToolCallPart, ToolResultPart]] = field(default_factory=list)

    @property
    def tools(self) -> list[str]:
        """Names of the tools called, in order."""
        return [call.name for call, _ in self.calls]


async def converse(provider: Provider, root: Path, task: str) -> Told:
    """Runs the task in a folder to its end."""
    told = Told()
    messages: list[ChatMessage] = [UserText(task)]
    for _ in range(ROUNDS_MAX):
        text = ""
        calls: tuple[ToolCallPart, ...] = ()
        async with provider.stream(ModelRequest("script", tuple(messages))) as parts:
            async for part in parts:
                match part:
                    case TextDelta(piece):
                        text += piece
                    case Stop(_, found):
                        calls = found
        told.replies.append(text)
        if not calls:
            return told
        results = [perform(root, call) for call in calls]
        told.calls += zip(calls, results, strict=True)
        messages += [AssistantTurn(text, calls), *results]
    raise AssertionError("the conversation does not end")


def perform(root: Path, call: ToolCallPart) -> ToolResultPart:
    """Does what one call asks for."""
    arguments = json.loads(call.arguments_json)
    tools: dict[str, Callable[..., str]] = {
        "read_file": _read_file,
        "list_files": _list_files,
        "search": _search,
        "edit_file": _edit_file,
        "run_tests": run_tests,
        "update_plan": _update_plan,
    }
    try:
        return ToolResultPart(call.call_id, tools[call.name](root, **arguments))
    except (OSError, ValueError) as err:
        return ToolResultPart(call.call_id, str(err), is_error=True)


def _read_file(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")


def _list_files(root: Path, pattern: str = "*") -> str:
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return "\n".join(n for n in names if fnmatch.fnmatch(n, pattern))


def _search(root: Path, pattern: str) -> str:
    hits = [
        f"{path.relative_to(root).as_posix()}:{number}: {line}"
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    return "\n".join(hits) or "no line matches"


def _edit_file(root: Path, path: str, old: str, new: str) -> str:
    text = (root / path).read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"the quoted text occurs {text.count(old)} times in {path}")
    (root / path).write_text(text.replace(old, new), encoding="utf-8")
    return f"{path} written"


def _update_plan(_root: Path, items: list[dict[str, str]]) -> str:
    if any(set(item) != {"text", "status"} for item in items):
        raise ValueError("an item has a text and a status")
    return "The plan is shown."


def run_tests(root: Path, paths: tuple[str, ...] = ()) -> str:
    """The tests of a folder in a process of their own: one line of counts, then a line for each failure."""
    options = ["-q", "--no-header", "--color=no", "-p", "no:cacheprovider", "-rfE"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *paths],
        cwd=root,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=TESTS_TIMEOUT_S,
        check=False,
    )
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    if not counts:
        raise ValueError(f"no tests ran: {done.stdout}{done.stderr}")
    found = re.findall(r"(?m)^(FAILED|ERROR) (\S+)(?: - (.*))?$", done.stdout)
    order = [f"{counts.get('passed', 0)} passed", f"{counts.get('failed', 0)} failed"]
    order += [f"{counts.get('error', 0)} errors", f"{counts.get('skipped', 0)} skipped"]
    return "\n".join([", ".join(order), *(f"{kind.lower()}: {name}: {why}" for kind, name, why in found)])


def failing(summary: str) -> list[str]:
    """Names of the tests that failed, out of what `run_tests` gave."""
    return sorted(re.findall(r"(?m)^(?:failed|error): (\S+): ", summary))
