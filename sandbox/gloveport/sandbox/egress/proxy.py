"""The proxy of one lease.

Purpose: serve what comes out of a jail: requests, tunnels and SOCKS, each decided by itself.
Invariant: list, names, addresses and the first words of TLS are all held against the same place before a byte goes out;
the decision is noted before anything is connected to.
Must never: connect to a name, follow a redirect, or let one connection's end harm another.
"""

import itertools
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import ByteStream

from gloveport.sandbox.egress.credentials import CredentialRefused, Loan, Scrub, inject
from gloveport.sandbox.egress.edge import end_alone
from gloveport.sandbox.egress.entries import Entry, Via, decide
from gloveport.sandbox.egress.exchange import carry
from gloveport.sandbox.egress.head import (
    END,
    HTTP_PORT,
    HTTPS_PORT,
    HeadFault,
    RequestHead,
    forwarded,
    read_absolute,
    read_connect,
    read_head,
    read_origin,
    without_coding,
)
from gloveport.sandbox.egress.hello import HANDSHAKE_RECORD, HelloFault
from gloveport.sandbox.egress.hosts import Authority
from gloveport.sandbox.egress.kept import Kept, may_repeat
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.egress.resolver import AddressRefused, Pins, Resolver
from gloveport.sandbox.egress.socks import VERSION, Reply, SocksFault, answer, read_request
from gloveport.sandbox.egress.tunnel import pipe, take_hello
from gloveport.sandbox.egress.watch import Contact, ContactEnd, Watch
from gloveport.sandbox.egress.wire import Allowance, Wire, WireEnd

if TYPE_CHECKING:
    from gloveport.sandbox.egress.opener import TlsOpener

BLOCKED: Final = "Blocked by sandbox"
BUSY_S: Final = 0.2
GRANTED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_PHRASES: Final = MappingProxyType(
    {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}
)


@dataclass(frozen=True, slots=True)
class Passed:
    """An attempt that goes through, and the addresses that it may be connected to."""

    trace_id: str
    way: str
    place: Authority
    entry: Entry
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request as it is sent on: what mends its answer, and the names of the credentials in it."""

    head: RequestHead
    path: bytes
    headers: list[tuple[bytes, bytes]]
    mend: Scrub | None
    used: tuple[str, ...]


class Gone(Exception):  # noqa: N818 - an outcome of the other side, not a fault of this program
    """A connection that was kept had ended when it was used again."""


class Blocked(Exception):  # noqa: N818 - a decision, not a fault of this program
    """An attempt that does not go through. `status`: of HTTP."""

    def __init__(self, place: Authority | None, reason: str, trace_id: str, status: int = 403) -> None:
        self.status = status
        where = place or "a request that cannot be read"
        super().__init__(f"{BLOCKED}: {where}\n{reason}\ntrace {trace_id}\n")


class Proxy:
    """Serves the connections of one lease. `trace` begins each trace id."""

    def __init__(
        self,
        entries: tuple[Entry, ...],
        watch: Watch,
        resolver: Resolver,
        limits: EgressLimits,
        trace: str,
        opener: "TlsOpener | None" = None,
        loans: tuple[Loan, ...] = (),
    ) -> None:
        self._opener, self._loans = opener, loans
        self._entries, self._watch, self._limits = entries, watch, limits
        self._pins = Pins(resolver)
        self._trace, self._numbers = trace, itertools.count(1)
        self._allowance = Allowance(limits.total_bytes_max)
        self._open, self._idle = 0, anyio.Event()

    async def wait_idle(self) -> None:
        """Wait until no connection is open."""
        while self._open:
            await self._idle.wait()

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection to its end; whatever it does, only it ends."""
        client = Wire(stream, self._limits.idle_s)
        self._open += 1
        try:
            await end_alone(self._talk(client), self._trace)
        finally:
            await client.close()
            self._open -= 1
            if not self._open:
                self._idle.set()
                self._idle = anyio.Event()

    async def _talk(self, client: Wire) -> None:
        try:
            if self._open > self._limits.connections_max:
                await anyio.sleep(BUSY_S)  # so that asking again and again costs its time and not the daemon's
                raise Blocked(None, f"limit connections_max of {self._limits.connections_max}", self._trace, 503)
            first = await client.read_exactly(1)
            client.unread(first)
            await (self._serve_socks(client) if first[0] == VERSION else self._serve_http(client))
        except Blocked as blocked:
            await _say(client, blocked)
        except (WireEnd, OSError):
            return

    # ---- the ways in ----

    async def _serve_http(self, client: Wire) -> None:
        async with Kept() as kept:
            while (head := await self._read_head(client)) is not None:
                try:
                    if head.method == "CONNECT":
                        place, path = read_connect(head), b""
                    else:
                        place, path = read_absolute(head)
                except HeadFault as fault:
                    raise await self._block(None, str(fault), "http", head.method, status=400) from fault
                if head.method == "CONNECT":
                    await self._serve_tunnel(client, place, "connect", GRANTED)
                    return
                passed = await self._judge(place, Via.HTTP, "http", head.method)
                if not await self._exchange(client, passed, head, path, kept):
                    return

    async def _serve_socks(self, client: Wire) -> None:
        try:
            place = await read_request(client)
        except SocksFault as fault:
            await self._block(None, str(fault), "socks")
            await client.write(fault.reply)
            return
        try:
            await self._serve_tunnel(client, place, "socks", answer(Reply.GRANTED))
        except Blocked:
            await client.write(answer(Reply.REFUSED))

    async def _serve_tunnel(self, client: Wire, place: Authority, way: str, granted: bytes) -> None:
        """A tunnel: raw where its entry says so, else TLS to the same name; plain HTTP only where SOCKS carries it."""
        passed = await self._judge(place, Via.TUNNEL, way)
        if passed.entry.terminates:
            if self._opener is None:
                raise await self._block(place, "nobody here can open its TLS", way, trace_id=passed.trace_id)
            await client.write(granted)
            await self._serve_opened(client, passed, self._opener)
            return
        upstream = await self._connect(passed)
        cut = ""
        try:
            await client.write(granted)
            if not passed.entry.raw:
                if way == "socks" and not await _begins_tls(client):
                    await upstream.close()
                    await self._serve_fixed(client, place, Via.HTTP)
                    return
                await upstream.write(await self._take_hello(client, passed))
            cut = await pipe(client, upstream, self._limits.idle_s)
        except WireEnd as error:
            cut = str(error)
            raise
        finally:
            await self._end(passed, upstream, None, cut)

    async def _serve_opened(self, client: Wire, tunnel: Passed, opener: "TlsOpener") -> None:
        """TLS that is opened here, since single requests have to be seen."""
        client.unread(await self._take_hello(client, tunnel))
        inner = await opener.accept(client, tunnel.place.host, self._limits.head_s)
        try:
            await self._serve_fixed(inner, tunnel.place, Via.TERMINATED)
        finally:
            await inner.close()

    async def _serve_fixed(self, client: Wire, place: Authority, via: Via) -> None:
        """Requests in a tunnel: each must name the tunnel's own place and is decided by itself."""
        way = "socks" if via is Via.HTTP else "https"
        try:
            async with Kept() as kept:
                while (head := await self._read_head(client)) is not None:
                    try:
                        path = read_origin(head, place, HTTP_PORT if via is Via.HTTP else HTTPS_PORT)
                    except HeadFault as fault:
                        raise await self._block(place, str(fault), way, head.method, status=400) from fault
                    passed = await self._judge(place, via, way, head.method)
                    if not await self._exchange(client, passed, head, path, kept):
                        return
        except Blocked as blocked:
            await _say(client, blocked)

    # ---- what they share ----

    async def _read_head(self, client: Wire) -> RequestHead | None:
        """The next request's head; None where the client is done. Raises Blocked or WireEnd."""
        first = await client.read()
        if not first:
            return None
        client.unread(first)
        raw = b""
        with anyio.move_on_after(self._limits.head_s):
            raw = await client.read_until(END, self._limits.head_bytes_max)
        if not raw:
            raise WireEnd(f"limit head_s of {self._limits.head_s:g} s")
        try:
            return read_head(raw)
        except HeadFault as fault:
            raise await self._block(None, str(fault), "http", status=400) from fault

    async def _judge(self, place: Authority, via: Via, way: str, method: str = "") -> Passed:
        """Decide an attempt, note the decision, and give what may be connected to. Raises Blocked."""
        verdict = decide(self._entries, place, via, method)
        if verdict.entry is None:
            raise await self._block(place, verdict.reason, way, method)
        try:
            addresses = await self._pins.find(place.host, verdict.entry.reach, self._limits.resolve_s)
        except AddressRefused as refused:
            raise await self._block(place, str(refused), way, method) from refused
        trace_id = self._next_trace()
        await self._watch.decided(Contact(trace_id, way, method, place, True, verdict.reason))
        return Passed(trace_id, way, place, verdict.entry, addresses)

    async def _block(
        self,
        place: Authority | None,
        reason: str,
        way: str,
        method: str = "",
        *,
        status: int = 403,
        trace_id: str | None = None,
    ) -> Blocked:
        """Note a refusal; the caller raises or says it."""
        trace_id = self._next_trace() if trace_id is None else trace_id
        await self._watch.decided(Contact(trace_id, way, method, place, False, reason))
        return Blocked(place, reason, trace_id, status)

    def _next_trace(self) -> str:
        number = next(self._numbers)
        if number > self._limits.requests_max:
            raise WireEnd(f"limit requests_max of {self._limits.requests_max}")
        return f"{self._trace}-{number}"

    async def _connect(self, passed: Passed) -> Wire:
        """A connection to one of the checked addresses. Raises Blocked (502)."""
        for address in passed.addresses:
            with anyio.move_on_after(self._limits.connect_s):
                try:
                    stream = await anyio.connect_tcp(address, passed.place.port)
                except OSError:
                    continue
                return Wire(stream, self._limits.idle_s, self._allowance, address)
        self._pins.forget(passed.place.host)
        await self._watch.ended(ContactEnd(passed.trace_id, passed.addresses[0], 0, 0, None, "no connection"))
        raise Blocked(passed.place, "it is allowed, but does not take connections", passed.trace_id, 502)

    async def _exchange(self, client: Wire, passed: Passed, head: RequestHead, path: bytes, kept: Kept) -> bool:
        """One request and its answer; False when the client's connection is not to be used again."""
        tls = passed.way == "https"
        try:
            sent, used = inject(self._loans, head.headers, passed.entry, passed.place, head.method, path, tls=tls)
        except CredentialRefused as refused:
            reason = str(refused)
            raise await self._block(
                passed.place, reason, passed.way, head.method, trace_id=passed.trace_id
            ) from refused
        lent = tuple(loan for loan in self._loans if loan.place == passed.place)
        keeps = may_repeat(head) and not head.wants_close and not lent and not used
        headers = forwarded(replace(head, headers=sent), passed.place, HTTPS_PORT if tls else HTTP_PORT, keeps=keeps)
        mend = Scrub(lent, sent) if lent else None
        request = _Request(head, path, headers if mend is None else without_coding(headers), mend, used)
        upstream = kept.take(passed.place, passed.addresses) if keeps else None
        if upstream is not None:
            with suppress(Gone):
                return await self._carry(client, passed, request, upstream, kept, again=True)
        return await self._carry(client, passed, request, await self._open_upstream(passed), kept if keeps else None)

    async def _open_upstream(self, passed: Passed) -> Wire:
        """A new connection, with TLS where the request came out of a tunnel that was opened. Raises Blocked."""
        upstream = await self._connect(passed)
        if passed.way != "https" or self._opener is None:
            return upstream
        below, cut = upstream, "it was given up"
        try:
            upstream = await self._opener.connect(below, passed.place.host, self._limits.head_s)
            return upstream
        except WireEnd as error:
            cut = str(error)
            raise Blocked(passed.place, cut, passed.trace_id, 502) from error
        finally:
            if upstream is below:
                await self._end(passed, below, None, cut)

    async def _carry(
        self,
        client: Wire,
        passed: Passed,
        request: "_Request",
        upstream: Wire,
        kept: Kept | None,
        *,
        again: bool = False,
    ) -> bool:
        """Carry one request over a connection, which `kept` takes where it can be used once more.

        With `again` it was used before: raises Gone where it had ended meanwhile, and nothing was answered.
        """
        status, cut, stays = None, "", False
        sent, received = upstream.sent, upstream.received
        most = self._limits.head_bytes_max
        try:
            carried = await carry(client, upstream, request.head, request.path, request.headers, most, request.mend)
            status, cut = carried.status, "" if carried.whole else "it was not carried to its end"
            stays = carried.whole and carried.can_go_on and kept is not None
            return carried.whole and not request.head.wants_close
        except WireEnd as error:
            cut = str(error)
            if again and upstream.received == received:
                cut = "it had ended, and is asked again"
                raise Gone from error
            raise Blocked(passed.place, cut, passed.trace_id, 502) from error
        finally:
            if kept is not None and stays:
                await kept.keep(upstream, passed.place)
            await self._end(passed, upstream, status, cut, request.used, before=(sent, received), stays=stays)

    async def _take_hello(self, client: Wire, passed: Passed) -> bytes:
        try:
            with anyio.fail_after(self._limits.head_s):
                return await take_hello(client, passed.place.host)
        except TimeoutError as error:
            raise WireEnd(f"limit head_s of {self._limits.head_s:g} s") from error
        except HelloFault as fault:
            await self._block(passed.place, str(fault), passed.way, trace_id=passed.trace_id)
            raise WireEnd(str(fault)) from fault

    async def _end(
        self,
        passed: Passed,
        upstream: Wire,
        status: int | None,
        cut: str,
        used: tuple[str, ...] = (),
        *,
        before: tuple[int, int] = (0, 0),
        stays: bool = False,
    ) -> None:
        """Tell how an attempt ended; `before`: what its connection had sent and received for others."""
        sent, received = upstream.sent - before[0], upstream.received - before[1]
        with anyio.CancelScope(shield=True):
            if not stays:
                await upstream.close()
            await self._watch.ended(ContactEnd(passed.trace_id, upstream.address, sent, received, status, cut, used))


async def _begins_tls(client: Wire) -> bool:
    first = await client.read_exactly(1)
    client.unread(first)
    return first[0] == HANDSHAKE_RECORD


async def _say(client: Wire, blocked: Blocked) -> None:
    """Answer with words, and end."""
    body = str(blocked).encode()
    head = (
        f"HTTP/1.1 {blocked.status} {_PHRASES[blocked.status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        await client.write(head.encode() + body)
        await client.end()
    except WireEnd:
        return
