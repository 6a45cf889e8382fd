"""What the daemon loads before its first client is answered."""

import subprocess
import sys
from pathlib import Path

from tests.kit.daemon import running_daemon, start_session, trust

import gloveport
from gloveport.server.cli.demo_repo import SCRIPT
from gloveport.server.commands import port, working

LATE = ("pydantic", "gloveport.protocol.wire.methods", "gloveport.server.app.rooms")
"""Each costs the first answer more than answering does; all of it comes with the rooms."""
CODE = "import sys, gloveport.server.app.foreground, gloveport.server.app.daemon; print(*sys.modules, sep='\\n')"
ANSWER = """
from gloveport.server.transports.lsp.handlers.lifecycle import About, Lifecycle, read_opening
from gloveport.server.transports.lsp.replies import result_frame
params = {"clientInfo": {"name": "editor"}, "initializationOptions": {"decisionToken": "t", "protocolVersion": 1}}
result_frame(1, Lifecycle(About("1", 1, "t"), may_decide=True).initialize(read_opening(params)))
"""


def loaded_by(code: str) -> frozenset[str]:
    """The modules of an interpreter that ran `code`."""
    roots = "\n".join(f"import sys; sys.path.insert(0, {path.rpartition('/')[0]!r})" for path in gloveport.__path__)
    done = subprocess.run([sys.executable, "-P", "-c", f"{roots}\n{code}"], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def test_the_first_client_is_answered_with_little_loaded() -> None:
    """Accepting a client, and answering its initialize, loads nothing of what does the work."""
    before = loaded_by(CODE)
    assert not before & set(LATE)
    assert "gloveport.server.transports.lsp.dispatch" in before
    answered = loaded_by(f"{ANSWER}{CODE}")
    assert not answered & set(LATE)


def test_what_is_late_is_what_the_rooms_load() -> None:
    """The control: the names above are names of something."""
    code = CODE.replace("gloveport.server.app.daemon", "gloveport.server.app.rooms")
    assert set(LATE) <= loaded_by(code)


def test_a_daemon_at_rest_holds_little_that_it_does_not_use() -> None:
    """Tools to find packages, the proxy's parser and the projections come with the first who needs them."""
    begin = "import gloveport.server.__main__ as entry\nentry._use_no_plugins()\n"
    loaded = loaded_by(begin + CODE.replace("gloveport.server.app.daemon", "gloveport.server.app.rooms"))
    assert not loaded & {"importlib.metadata", "h11", "gloveport.server.commands.view_answers"}
    used = "import gloveport.server.commands.views, gloveport.sandbox.egress.proxy, importlib.metadata\n"
    assert {"importlib.metadata", "h11", "gloveport.server.commands.view_answers"} <= loaded_by(used + CODE)


TELLS = """
import atexit, pathlib, sys
atexit.register(lambda: pathlib.Path("loaded").write_text("\\n".join(sys.modules)))
import gloveport.server.__main__
gloveport.server.__main__.main()
"""
UNUSED = (
    "gloveport.server.tools.registry", "gloveport.server.tools.tests", "gloveport.server.tools.programs",
    "gloveport.server.commands.working", "gloveport.server.commands.turn", "gloveport.sandbox.backends.supervised",
    "gloveport.sandbox.runner", "gloveport.sandbox.doctor", "docker", "h11", "httpx", "tree_sitter", "pathspec",
    "unidiff", "tarfile", "zipfile", "tempfile", "email", "mimetypes", "importlib.metadata", "importlib.resources",
)  # fmt: skip
"""What a daemon does not need for a session that nobody asks anything: by name, with all that is below."""


async def test_a_daemon_with_an_idle_session_holds_nothing_of_what_runs_commands(tmp_path: Path) -> None:
    """No rung that was never used is opened at a start to look for what it left, and no tool is made ready."""
    with running_daemon(SCRIPT, started=False, loads_itself=True) as daemon:
        daemon.start(("-P", "-c", TELLS))
        async with daemon.client() as client:
            await trust(client, tmp_path)
            await start_session(client, tmp_path)
        daemon.stop()
        loaded = (daemon.home / "loaded").read_text().split()
    assert "gloveport.server.app.rooms" in loaded
    assert "gloveport.server.workspace.snapshot" in loaded
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{one}." for one in UNUSED))] == []


def test_each_late_handler_is_there_and_no_other() -> None:
    """What is named as loaded later is what is then found."""
    for early, late, maker in ((port.READS, working.READS, "_read."), (port.CHANGES, working.CHANGES, "_change.")):
        assert {method for method, handler in early.items() if handler.__qualname__.startswith(maker)} == set(late)
