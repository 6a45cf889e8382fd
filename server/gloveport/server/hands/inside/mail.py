"""The e-mail hand: one rendered message to one server.

Purpose: log in, hand the message over, say what the server said.
Invariant: the message goes to all of its recipients or to none; once its bytes are on the way without an answer, the
outcome is unknown and is told so.
Must never: be imported by the daemon, or go on without TLS where TLS was asked for.

Asked: `{"place", "host", "tls", "ca", "user", "has_secret", "secret_socket", "sender", "recipients", "timeout_s"}`, the
message behind it. Answers `{"sent": true, "said": words}`, or an error with `"unknown": true` where nobody can tell.
"""

import email.utils
import smtplib
import socket
from typing import Any

from gloveport.server.hands.inside.frame import Answer, InputFault, serve, take_secret, trusting, way_to


class _Link(smtplib.SMTP):
    """A session with the server's own name, by the way that is open."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        super().__init__(asked["host"], 25, local_hostname="gloveport", timeout=asked["timeout_s"])

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        link = socket.create_connection(way_to(self._asked), timeout)
        if self._asked["tls"] == "tls":
            return trusting(self._asked).wrap_socket(link, server_hostname=host)
        return link


def send(asked: dict[str, Any], data: bytes) -> Answer:
    """Send it."""
    password = take_secret(asked)
    message = b"Date: " + email.utils.formatdate().encode() + b"\r\n" + data
    on_the_way = False
    try:
        with _Link(asked) as link:
            if asked["tls"] == "starttls":
                link.starttls(context=trusting(asked))
            if asked["user"]:
                link.login(asked["user"], password)
            link.ehlo_or_helo_if_needed()
            _answered(link.mail(asked["sender"], [f"SIZE={len(message)}"] if link.has_extn("size") else []))
            for recipient in asked["recipients"]:
                _answered(link.rcpt(recipient), recipient)
            on_the_way = True
            code, said = link.data(message)
            on_the_way = False
            _answered((code, said))
    except smtplib.SMTPDataError as error:
        raise InputFault(f"the server refused the message: {error.smtp_code} {_words(error.smtp_error)}") from error
    except (smtplib.SMTPException, OSError) as error:
        words = f"{type(error).__name__}: {error}"
        if on_the_way:
            return {"error": f"the connection ended before the server answered ({words})", "unknown": True}
        raise InputFault(words) from error
    return {"sent": True, "said": f"{code} {_words(said)}"}


def _answered(answer: tuple[int, bytes], recipient: str = "") -> None:
    code, said = answer
    if not 200 <= code < 300:
        raise InputFault(f"the server refused {recipient or 'it'}: {code} {_words(said)}")


def _words(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said


def main() -> None:
    """Send one message."""
    serve(send)
