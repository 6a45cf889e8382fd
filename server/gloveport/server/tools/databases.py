"""query_database: one statement that reads, asked of a SQLite file or of a database of the user's.

Purpose: rows out of databases, by a hand that can neither write nor reach anything else.
Invariant: one statement, a deadline, so many rows; the model names a database and never sees how it is logged in to.
Must never: let a statement write, or open a database in the daemon.
"""

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import FileFingerprint
from gloveport.server.edit.render import visible
from gloveport.server.hands.libraries import find_library
from gloveport.server.hands.request import Started, start_of
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    ToolContext,
    ToolError,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.files import kept_reads, named, touched
from gloveport.server.tools.handwork import account_words, failed, good, refuse_size, work
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.rows import rows_text

HAND: Final = "sql"
STATEMENT_S: Final = 10.0
ROWS_DEFAULT: Final = 100
ROWS_MAX: Final = 1_000
SQL_CHARACTERS_MAX: Final = 16 * 1024


class QueryDatabaseArguments(Arguments):
    """Arguments of query_database."""

    sql: Annotated[str, Field(min_length=1, max_length=SQL_CHARACTERS_MAX, description="One statement that reads")]
    path: str = Field(default="", max_length=4_096, description="A SQLite file of the workspace")
    database: str = Field(default="", max_length=64, description="Or the name of a database of the user's")
    rows: int = Field(default=ROWS_DEFAULT, ge=1, le=ROWS_MAX, description="How many rows at most")


class QueryDatabase:
    """query_database"""

    name = "query_database"
    description = (
        "Ask a SQLite file of the workspace, or a PostgreSQL database that the user has named, with one statement that "
        "reads. Rows are shown as JSON lists, the names of the columns first. Nothing can be written."
    )
    arguments = QueryDatabaseArguments

    async def plan(self, arguments: QueryDatabaseArguments, context: ToolContext) -> ToolPlan:
        """Reads a file, or reaches one place."""
        if bool(arguments.path) == bool(arguments.database):
            raise ToolError(ErrorCode.TOOL_ARGUMENTS, "name either a path or a database")
        plan = ToolPlan(
            title="",
            effects=(),
            recovery="read_only",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
        )
        if arguments.path:
            real = await context.workspace.resolve(arguments.path)
            digest = await context.workspace.digest(real)
            return replace(
                plan,
                title=visible(f"Ask {named(arguments.path, real)}: {arguments.sql}"[:200]),
                effects=(*touched("read", arguments.path, real), *await kept_reads(real, context)),
                file_digests=() if digest is None else ((real, str(digest)),),
            )
        find_library("pg8000")
        place = context.hands.database(arguments.database).account.place
        context.hands.refuse_places((place,))
        if context.redact(arguments.sql.encode()) != arguments.sql.encode():
            words = "the statement holds what is known to be a secret, and would send it out"
            raise ToolError(ErrorCode.POLICY_DENIED, words, hint="Leave the secret out.")
        return replace(
            plan,
            title=visible(f"Ask the database {arguments.database}: {arguments.sql}"[:200]),
            effects=(effect("network", place),),
            sends=f"To the database {arguments.database}, in a transaction that only reads:\n{arguments.sql}",
        )

    async def perform(self, arguments: QueryDatabaseArguments, context: ToolContext) -> Performed:
        """Ask it."""
        asked = {"sql": arguments.sql, "rows": arguments.rows, "timeout_s": STATEMENT_S}
        label = context.label
        if arguments.path:
            started = await _file(arguments.path, asked, context)
        else:
            known = context.hands.database(arguments.database)
            if not context.was_judged("network", known.account.place):
                raise ToolError(ErrorCode.CHANGE_CONFLICT, "the database was moved since the call was planned")
            asked |= {**account_words(known.account), "database": known.database}
            started = replace(start_of("postgres", asked, library=find_library("pg8000")), account=known.account)
            label = LabelRecord(integrity=2, readers=None, provenance=(f"database:{arguments.database}",))
        done = await work(HAND, started, context)
        if (nothing := failed(done, context)) is not None:
            return replace(nothing, label=label)
        try:
            text = rows_text(done.told or {})
        except (KeyError, TypeError, ValueError, RecursionError):
            return replace(good(done, "No result: what the hand answered is no table", label), outcome="failed")
        return good(done, bounded(clean_output(context.redact(text.encode("utf-8", "replace")))), label)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Nothing was changed, so it may be asked again."""
        return Found("not_started", "a call that only looks may be made again")

    async def attach(
        self, arguments: QueryDatabaseArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Ask again."""
        return await self.perform(arguments, context)


async def _file(path: str, asked: dict[str, Any], context: ToolContext) -> Started:
    real = await context.workspace.resolve(path)
    if not context.was_judged("read", real):
        raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{path} leads elsewhere since the call was planned")
    data = await context.workspace.read(path, at=real)
    refuse_size(len(data), HAND, path, "It is too large for this tool.")
    return start_of("sqlite", asked, data)
