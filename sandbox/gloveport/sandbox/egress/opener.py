"""TLS that the proxy itself speaks, to both sides.

Purpose: be one host to a jail, by a certificate of the lease's own, and be a careful client to that host.
Invariant: outside, the host's certificate is checked against the machine's roots and its name; nothing is switched off.
Must never: be used for a tunnel whose entry does not say so.
"""

import ssl
from collections.abc import Coroutine
from typing import Any

import anyio
from anyio.streams.tls import TLSStream

from gloveport.sandbox.egress.authority import ALPN, LeaseAuthority
from gloveport.sandbox.egress.wire import Ahead, Wire, WireEnd


class TlsOpener:
    """The two halves. `trust`: what is believed of servers; the machine's roots unless a test says otherwise."""

    def __init__(self, authority: LeaseAuthority, trust: ssl.SSLContext | None = None) -> None:
        self._authority = authority
        self._trust = ssl.create_default_context() if trust is None else trust
        self._trust.set_alpn_protocols([ALPN])

    async def accept(self, client: Wire, host: str, head_s: float) -> Wire:
        """The inside of a tunnel, as this host. Raises WireEnd."""
        context = self._authority.context_for(host)
        wrapping = TLSStream.wrap(Ahead(client), server_side=True, ssl_context=context, standard_compatible=False)
        return await _wrapped(wrapping, client, head_s, "the program does not trust the sandbox's certificate")

    async def connect(self, upstream: Wire, host: str, head_s: float) -> Wire:
        """TLS to this host. Raises WireEnd where its certificate is not good."""
        wrapping = TLSStream.wrap(
            upstream.stream, server_side=False, hostname=host, ssl_context=self._trust, standard_compatible=False
        )
        return await _wrapped(wrapping, upstream, head_s, "no TLS that can be trusted")


async def _wrapped(wrapping: Coroutine[Any, Any, TLSStream], below: Wire, head_s: float, words: str) -> Wire:
    try:
        with anyio.fail_after(head_s):
            return below.over(await wrapping)
    except TimeoutError as error:
        raise WireEnd(f"limit head_s of {head_s:g} s") from error
    except (ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or "it ended"
        raise WireEnd(f"{words}: {reason}") from error
