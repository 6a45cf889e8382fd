"""Which programs are not ended halfway.

Purpose: find the commands whose half-done effect nobody could find out: they are waited for, never killed by a stop.
Invariant: only ever makes a stop more careful; how long such a command may run is its own time limit.
Must never: be the reason why something is allowed.
"""

from collections.abc import Iterable
from typing import Final, Literal

from gloveport.server.policy.commands import command_matches, views
from gloveport.server.policy.effects import Effect, EffectKind

AWAITED_KINDS: Final = frozenset({EffectKind.publish, EffectKind.message})
"""What has left this machine in part can't be called back, nor can anybody see which part."""

MIGRATIONS: Final = tuple(
    tuple(command.split())
    for command in (
        "alembic upgrade", "alembic downgrade", "flask db", "django-admin migrate", "manage.py migrate",
        "rails db:migrate", "rake db:migrate", "prisma migrate", "prisma db", "knex migrate:latest",
        "sequelize db:migrate", "typeorm migration:run", "drizzle-kit push", "drizzle-kit migrate", "flyway",
        "liquibase", "dbmate", "goose", "migrate", "sqlx migrate", "diesel migration", "sqitch deploy",
        "mix ecto.migrate", "dotnet ef", "artisan migrate", "phinx migrate", "atlas migrate", "atlas schema",
    )
)  # fmt: skip
"""Commands that change a database step by step."""


def stop_class_of(
    declared: Literal["killable", "atomic", "opaque"], argv: tuple[str, ...] | None, effects: Iterable[Effect]
) -> Literal["killable", "atomic", "opaque"]:
    """How a call ends early: as its tool declares, or more carefully where its command is known."""
    if declared != "killable" or argv is None:
        return declared
    if any(effect.kind in AWAITED_KINDS for effect in effects) or is_migration(argv):
        return "opaque"
    return declared


def is_migration(argv: tuple[str, ...]) -> bool:
    """True if the command, or one it may start, changes a database step by step."""
    commands = (view[at:] for view in views(argv) for at in range(min(len(view), _SCRIPT_PLACES)))
    return any(command_matches(pattern, command) for command in commands for pattern in MIGRATIONS)


_SCRIPT_PLACES: Final = 3
"""`python manage.py migrate`, `python -m alembic upgrade`: where a script's name may stand."""
