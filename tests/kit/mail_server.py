"""A mail server on loopback.

Purpose: take messages as a real server does, with a log-in where it is asked for, and keep them.
Invariant: it speaks SMTP by a library of others; what it took it acknowledged, unless a test told it to stay silent.
"""

import asyncio
import email
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from gloveport.server.accounts import Account, MailAccount
from gloveport.server.engine.way_out import WaysOut
from gloveport.server.secrets.value import Secret

USER, PASSWORD = "me", "the-real-password-of-mail"
MESSAGE = {"to": ["ann@example.org", "bob@example.org"], "subject": "Süd", "body": "Hello\n.\nä\n"}


@dataclass
class MailServer:
    """What came in. `refuse` are recipients that are not taken; `silent`: it takes a message and drops the link."""

    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    refuse: tuple[str, ...] = ()
    silent: bool = False
    sessions: int = 0

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, or not."""
        if address in self.refuse:
            return "550 nobody of this name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        """Take a message."""
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.recipients.append(list(envelope.rcpt_tos))
        if self.silent:
            server.transport.abort()
        return "250 taken"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        """Who knows the password may send."""
        assert isinstance(data, LoginPassword)
        self.users.append(data.login.decode())
        good = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=good, handled=good)


@asynccontextmanager
async def mail_server(*, log_in: bool = True, tls: ssl.SSLContext | None = None) -> AsyncIterator[MailServer]:
    """A server on a port of loopback."""
    kept, links = MailServer(), []

    def serve() -> SMTP:
        kept.sessions += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a log-in without TLS is what some of the tests are about
            link = SMTP(
                kept, authenticator=kept.authenticate, auth_required=log_in, auth_require_tls=tls is not None,
                tls_context=tls, require_starttls=tls is not None, hostname="mail.test",
                loop=asyncio.get_running_loop(),
            )  # fmt: skip
        links.append(link)
        return link

    server = await asyncio.get_running_loop().create_server(serve, "127.0.0.1", 0)
    kept.port = server.sockets[0].getsockname()[1]
    try:
        yield kept
    finally:
        server.close()
        for link in links:
            if link.transport is not None:
                link.transport.abort()
        await server.wait_closed()


def ways_of(folder: Path, server: MailServer, *, places: str = "loopback", **account: str) -> WaysOut:
    """Ways out with this server as the user's own."""
    place = f"127.0.0.1:{server.port}"
    tls = account.get("tls", "none")
    assert tls in ("none", "starttls", "tls")
    password = Secret(account.get("password", PASSWORD))
    known = Account(place, USER, password, "none" if tls == "none" else "starttls", account.get("ca_file", ""))
    return WaysOut(
        folder / "data",
        lambda: 0,
        lambda: (f"{place} {places}".strip(),),
        mail=lambda: MailAccount(known, "me@example.org"),
    )
