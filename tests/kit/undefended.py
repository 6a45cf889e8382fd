"""A daemon of which single defences are off.

Purpose: the positive controls of the red team: what an attack does when just the defence that it is about is missing.
Invariant: everything in it is the real daemon's; only what is named is taken out, each by one named hole.
Must never: be told apart by the daemon it runs, or be part of the product.

Usage: GLOVEPORT_TEST_OFF="finding kernel:confidential;hole carry" python undefended.py daemon
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gloveport.server import __main__ as program

OFF: Final = "GLOVEPORT_TEST_OFF"


def replace(place: object, **holes: object) -> None:
    """Put these in the place of what a module or a class has under their names."""
    for name, hole in holes.items():
        setattr(place, name, hole)


def drop_findings(names: frozenset[str]) -> None:
    """What rules or checks of these names find fault with is simply allowed."""
    from gloveport.server.policy import decide as deciding
    from gloveport.server.policy.rules.rule import Verdict

    def allowed(one: Any) -> Any:
        return dataclasses.replace(one, verdict=Verdict.allow) if one.rule_id in names else one

    def without(source: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: [allowed(one) for one in source(*args)]

    for source in ("rule_findings", "check_findings"):
        setattr(deciding, source, without(getattr(deciding, source)))


def _carry() -> None:
    """Labels end with their session."""
    from gloveport.server.engine.label_book import LabelBook

    replace(LabelBook, of=lambda *_args: None, below=lambda *_args: None)


def _results() -> None:
    """A result enters the context under its tool's own word."""
    from gloveport.server.engine import tool_run

    async def own(_actor: Any, _call: Any, done: Any) -> Any:
        return done.label

    replace(tool_run, result_label=own)


def _written() -> None:
    """What the agent wrote is the workspace's own text again."""
    from gloveport.server.session import fold

    replace(fold, with_written=lambda state, _body: state)


def _hiding() -> None:
    """A program sees the kept files as well."""
    from gloveport.server.tools import programs, tests

    async def nothing(_context: Any) -> tuple[str, ...]:
        return ()

    for module in (programs, tests):
        replace(module, hidden_files=nothing)


def _scan() -> None:
    """What is sent is not looked at."""
    from gloveport.server.tools import http

    replace(http, _check_sent=lambda *_args: None)


def _web() -> None:
    """What a server answers is nobody's word in particular."""
    from gloveport.protocol.journal.events.base import LabelRecord
    from gloveport.server.tools import http

    replace(http, _label=lambda *_args: LabelRecord(integrity=0, readers=None, provenance=()))


def _provider() -> None:
    """Any provider is sent what the last one read."""
    from gloveport.server.engine import model_run

    replace(model_run, _check_reader=lambda _state: None)


def _carried() -> None:
    """What a program or a mail could take along from files is not looked at."""
    from gloveport.server.engine import tool_run
    from gloveport.server.policy.labels import BOTTOM

    async def nothing(*_args: Any) -> Any:
        return BOTTOM

    replace(tool_run, beside_it=nothing)


def _artifacts() -> None:
    """What a program left is not looked through."""
    from gloveport.server.engine import tool_run

    async def as_it_is(_actor: Any, _call: Any, looked: Any) -> Any:
        return looked

    async def as_it_says(_actor: Any, _call: Any, done: Any, _since_us: int) -> Any:
        return done

    replace(tool_run, looked_through=as_it_is, with_what_stays=as_it_says)


HOLES: Final[Mapping[str, Callable[[], None]]] = {
    "carry": _carry,
    "results": _results,
    "written": _written,
    "hiding": _hiding,
    "scan": _scan,
    "web": _web,
    "provider": _provider,
    "artifacts": _artifacts,
    "carried": _carried,
}


def open_holes(named: str) -> None:
    """Take out what is named."""
    parts = [part.split() for part in named.split(";") if part]
    drop_findings(frozenset(name for kind, name in parts if kind == "finding"))
    for kind, name in parts:
        if kind == "hole":
            HOLES[name]()


if __name__ == "__main__":
    open_holes(os.environ[OFF])
    program.main()
