"""The tools on offer.

Purpose: name every tool of this program, in the order in which a model is told of them.
Invariant: the order never changes while a daemon runs.
Must never: be loaded before a tool is needed, or offer a tool that cannot be planned, judged and performed.
"""

from gloveport.server.tools.archives import ListArchive, UnpackArchive
from gloveport.server.tools.code import RunJavascript, RunPython
from gloveport.server.tools.contract import Tool
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
from gloveport.server.tools.toolbox import Toolbox


def builtin_tools() -> tuple[Tool, ...]:
    """Every tool of this program."""
    return (
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


def builtin_toolbox() -> Toolbox:
    """All of them in a toolbox that is ready."""
    toolbox = Toolbox(builtin_tools)
    toolbox.specs()
    return toolbox
