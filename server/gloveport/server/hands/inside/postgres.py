"""The SQL hand for PostgreSQL: one statement in a transaction that only reads.

Purpose: log in, ask, answer so many rows.
Invariant: the session and its transaction are read-only, the server ends the statement at its deadline, and the
protocol takes one statement alone.
Must never: be imported by the daemon, or go on without TLS where TLS was asked for.

Asked: `{"place", "host", "tls", "ca", "user", "has_secret", "secret_socket", "database", "sql", "rows", "timeout_s"}`.
Answers like the file reader.
"""

import re
import socket
from typing import Any, Final

import pg8000.native

from gloveport.server.hands.inside.frame import Answer, InputFault, serve, take_secret, trusting, way_to
from gloveport.server.hands.inside.tables import query_answer

MILLISECONDS: Final = 1_000
_COMMENT: Final = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_CURSOR: Final = ("select", "with", "values", "table")
_WHOLE: Final = ("show", "explain")


def ask(asked: dict[str, Any], _data: bytes) -> Answer:
    """The rows of one statement."""
    sql = asked["sql"].strip().rstrip(";")
    word = re.match(r"[(a-z]*", sql[_COMMENT.match(sql).end() :].lower())[0].lstrip("(")  # type: ignore[index, union-attr]  # - both patterns match anything
    if word not in (*_CURSOR, *_WHOLE):
        raise InputFault(f"a statement that reads begins with one of {', '.join((*_CURSOR, *_WHOLE)).upper()}")
    timeout = int(asked["timeout_s"] * MILLISECONDS)
    options = f"-c default_transaction_read_only=on -c statement_timeout={timeout} -c lock_timeout={timeout}"
    link: Any = pg8000.native.Connection(
        asked["user"],
        host=asked["host"],
        database=asked["database"],
        password=take_secret(asked) or None,
        ssl_context=trusting(asked) if asked["tls"] == "tls" else False,
        sock=socket.create_connection(way_to(asked), asked["timeout_s"]),
        application_name="gloveport",
        startup_params={"options": options},
    )
    try:
        link.run("START TRANSACTION READ ONLY")
        if word in _CURSOR:
            link.execute_unnamed(f"DECLARE asked NO SCROLL CURSOR FOR {sql}")
            found = link.execute_unnamed(f"FETCH {int(asked['rows']) + 1} FROM asked")
        else:
            found = link.execute_unnamed(sql)
        rows, names = found.rows or [], [column["name"] for column in found.columns or []]
    except pg8000.native.DatabaseError as error:
        told = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        raise InputFault(f"the server refused it: {told.get('M', error)} ({told.get('C', 'no code')})") from error
    finally:
        link.close()  # without a commit: what some server let through is taken back
    return query_answer(asked["database"], names, rows[: asked["rows"] + 1], asked["rows"], [])


def main() -> None:
    """Ask once."""
    serve(ask)
