"""The tools of a daemon, made when the first is needed.

Purpose: find a tool by name, and describe all of them to a model.
Invariant: the order and the text of the specifications never change while a daemon runs; tools are made once.
Must never: load a tool by being loaded: a daemon at rest needs none.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.contract import ToolSpec
from gloveport.server.tools.contract import Tool, ToolError


@dataclass(frozen=True, slots=True)
class _Made:
    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]


def _parameters(tool: Tool) -> dict[str, Any]:
    schema = tool.arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


class Toolbox:
    """The tools of a daemon, by name; `load` gives them, and is called at most once."""

    def __init__(self, load: Callable[[], tuple[Tool, ...]]) -> None:
        self._load = load
        self._known: _Made | None = None
        self._making = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self._made().tools)

    async def get_ready(self) -> None:
        """Make the tools, if none was needed so far, while others are served."""
        if self._known is None:
            await anyio.to_thread.run_sync(self._made)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of the tools."""
        return self._made().specs

    def find(self, name: str) -> Tool:
        """The tool of this name. Raises ToolError (TOOL_UNKNOWN)."""
        tools = self._made().tools
        tool = tools.get(name)
        if tool is None:
            offered = ", ".join(sorted(tools))
            raise ToolError(ErrorCode.TOOL_UNKNOWN, f"there is no tool {name[:100]!r}; there are: {offered}")
        return tool

    def _made(self) -> _Made:
        with self._making:
            if self._known is None:
                tools = self._load()
                specs = tuple(ToolSpec(tool.name, tool.description, _parameters(tool)) for tool in tools)
                self._known = _Made({tool.name: tool for tool in tools}, specs)
            return self._known
