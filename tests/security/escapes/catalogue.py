"""The attempts as data: what each tries, by which program, and how its success is judged from outside."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gloveport.sandbox.contract import Claim

FOLDER = Path(__file__).resolve().parent
GROUPS = ("files", "processes", "network", "kernel", "limits", "daemon")
JUDGES = frozenset(
    {"told", "said", "outside_changed", "reached", "signalled", "survives", "set_id_left", "crowd", "big_file", "disk",
     "many_files", "found_on_host", "spool", "collected", "collected_too_much", "hangs"}
)  # fmt: skip
CONTROLS = frozenset({"process", "bare", "lifted", "naive", "uncovered", "bare_mount", "parsed"})
PRELUDE = r"""
import ctypes, errno, json, os, socket, struct, sys, time
ctx = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    made = libc.syscall(ctypes.c_long(number), *words)
    if made < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return made
def show(path): print(open(path).read(), flush=True)
def escaped(): print(ctx['word'], flush=True)
def absent(why): print('absent here: ' + why, flush=True); raise SystemExit(0)
def family(number, kind, protocol=0):
    try: socket.socket(number, kind, protocol)
    except OSError as error:
        if ctx['bare'] and error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
            absent('this kernel has no such family')
        raise
    escaped()
def vsock(cid):
    try: link = socket.socket(40, socket.SOCK_STREAM)
    except OSError:
        if ctx['bare']: absent('this kernel has no such family')
        raise
    link.settimeout(0.5)
    try: link.connect((cid, 1024))
    except OSError: pass
    escaped()
def judged_call(*arguments):
    try: call(*arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS): raise
    escaped()
def terminal(number):
    import pty
    if libc.ioctl(pty.openpty()[1], ctypes.c_ulong(number), b'x') == 0: escaped()
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row. `program` runs after the prelude; `first` runs in a run of its own before it.

    `control` says where the same attempt is shown to succeed: on the rung that promises nothing of it (`process`),
    without any rung (`bare`), on the same rung with its limits lifted, its cover left out, or with an artifact read the
    naive way, or read and parsed. `root`: that control needs root. `limits` are the ones it tries to pass.
    """

    id: str
    tries: str
    claim: Claim
    judge: str
    program: str
    group: str
    control: str = "process"
    root: bool = False
    kind: str = "build"
    first: str = ""
    covered: str = ""
    mounted: str = ""
    artifact: str = "out.txt"
    collect_while_running: bool = False
    hard_link_before: bool = False
    limits: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def source(self, marker: str, *, first: bool = False) -> str:
        """The whole program; the marker makes its processes findable from outside."""
        return f"# {marker}\n{PRELUDE}\n{self.first if first else self.program}\n"


def load() -> tuple[Attempt, ...]:
    """Every attempt of every group, in order. Raises where a row is not one."""
    found = []
    for group in GROUPS:
        for row in tomllib.loads((FOLDER / f"{group}.toml").read_text(encoding="utf-8"))["attempt"]:
            found.append(Attempt(group=group, **{**row, "claim": Claim(row["claim"])}))
    assert len({one.id for one in found}) == len(found), "two attempts have one name"
    assert all(one.judge in JUDGES and one.control in CONTROLS for one in found)
    return tuple(found)
