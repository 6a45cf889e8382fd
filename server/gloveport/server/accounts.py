"""Where the user's mail goes out and which databases the agent may ask, as the settings name them.

Purpose: read the tables `[mail]` and `[[databases]]`; their passwords are held as secrets.
Invariant: a password has one place; without TLS it goes to this machine alone.
Must never: read anything but the values it is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gloveport.server.secrets.value import Secret

Tls = Literal["starttls", "tls", "none"]
MAIL_KEYS: Final = frozenset({"place", "from", "user", "password_env", "tls", "ca_file"})
DATABASE_KEYS: Final = frozenset({"name", "place", "database", "user", "password_env", "tls", "ca_file"})
_MAIL_TLS: Final = ("starttls", "tls", "none")
_DATABASE_TLS: Final = ("tls", "none")


@dataclass(frozen=True, slots=True)
class Account:
    """A server at one place, and who the user is there. `ca_file`: roots of trust beside the machine's own."""

    place: str
    user: str = ""
    password: Secret | None = field(default=None, repr=False)
    tls: Tls = "tls"
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class MailAccount:
    """How mail is sent, and as whom."""

    account: Account
    sender: str


@dataclass(frozen=True, slots=True)
class Database:
    """A PostgreSQL database under the name by which the agent asks for it."""

    name: str
    account: Account
    database: str


def read_mail(table: Mapping[str, Any], environment: Mapping[str, str]) -> MailAccount:
    """The account of `[mail]`. Raises ValueError saying what is wrong."""
    texts = _texts(table, "mail", ("place", "from"))
    return MailAccount(_account(texts, "mail", _MAIL_TLS, environment), texts["from"])


def read_database(table: Mapping[str, Any], environment: Mapping[str, str]) -> Database:
    """One of `[[databases]]`. Raises ValueError saying what is wrong."""
    texts = _texts(table, "databases", ("name", "place", "database"))
    return Database(texts["name"], _account(texts, "databases", _DATABASE_TLS, environment), texts["database"])


def _account(texts: Mapping[str, str], kind: str, known: tuple[Tls, ...], environment: Mapping[str, str]) -> Account:
    wanted = texts.get("tls", known[0])
    chosen = next((one for one in known if one == wanted), None)
    if chosen is None:
        raise ValueError(f"{kind}.tls is one of {', '.join(known)}")
    value = environment.get(texts["password_env"], "") if "password_env" in texts else ""
    password = Secret(value) if value else None
    return Account(texts["place"], texts.get("user", ""), password, chosen, texts.get("ca_file", ""))


def _texts(table: Mapping[str, Any], kind: str, needed: tuple[str, ...]) -> dict[str, str]:
    if not all(isinstance(value, str) and value for value in table.values()):
        raise ValueError(f"every value of {kind} is a non-empty text")
    if not set(needed) <= table.keys():
        raise ValueError(f"{kind} needs {', '.join(needed)}")
    return dict(table)
