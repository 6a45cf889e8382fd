"""The tools on offer.

Purpose: find a tool by name, and describe all of them to a model.
Invariant: the order and the text of the specifications never change while a daemon runs.
Must never: offer a tool that cannot be planned, judged and performed.
"""

from typing import Any

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.contract import ToolSpec
from gloveport.server.tools.archives import ListArchive, UnpackArchive
from gloveport.server.tools.code import RunJavascript, RunPython
from gloveport.server.tools.contract import Tool, ToolError
from gloveport.server.tools.databases import QueryDatabase
from gloveport.server.tools.documents import ReadDocument
from gloveport.server.tools.edits import DeleteFile, EditFile, MoveFile, MultiEdit, WriteFile
from gloveport.server.tools.files import ListFiles, ReadFile, Search
from gloveport.server.tools.http import HttpRequest
from gloveport.server.tools.mail import SendEmail
from gloveport.server.tools.notebooks import EditNotebook
from gloveport.server.tools.patches import ApplyDiff, ApplyPatch
from gloveport.server.tools.plan import UpdatePlan
from gloveport.server.tools.plots import Plot
from gloveport.server.tools.programs import RunCommand
from gloveport.server.tools.safe_command import LookWith
from gloveport.server.tools.tests import RunTests


def _parameters(tool: Tool) -> dict[str, Any]:
    schema = tool.arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


class Toolbox:
    """The tools of a daemon, by name."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._specs = tuple(ToolSpec(tool.name, tool.description, _parameters(tool)) for tool in tools)

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of the tools."""
        return self._specs

    def find(self, name: str) -> Tool:
        """The tool of this name. Raises ToolError (TOOL_UNKNOWN)."""
        tool = self._tools.get(name)
        if tool is None:
            offered = ", ".join(sorted(self._tools))
            raise ToolError(ErrorCode.TOOL_UNKNOWN, f"there is no tool {name[:100]!r}; there are: {offered}")
        return tool


def builtin_toolbox() -> Toolbox:
    """Every tool of this program."""
    return Toolbox(
        (
            ReadFile(),
            ListFiles(),
            Search(),
            LookWith(),
            ReadDocument(),
            ListArchive(),
            UnpackArchive(),
            EditFile(),
            WriteFile(),
            DeleteFile(),
            MultiEdit(),
            MoveFile(),
            ApplyPatch(),
            ApplyDiff(),
            EditNotebook(),
            RunCommand(),
            RunTests(),
            HttpRequest(),
            QueryDatabase(),
            RunPython(),
            RunJavascript(),
            Plot(),
            SendEmail(),
            UpdatePlan(),
        )
    )
