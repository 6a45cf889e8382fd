"""Bytes that only the two ends can read.

Purpose: read the hello that comes first, and carry bytes both ways until both ends are done.
Invariant: nothing is carried before its hello named the place that was decided.
Must never: look into what is carried after that.
"""

from functools import partial

import anyio

from gloveport.sandbox.egress.hello import (
    HELLO_BYTES_MAX,
    RECORD_HEAD,
    HelloFault,
    is_whole,
    read_hello,
    record_length,
)
from gloveport.sandbox.egress.hosts import HostError, read_host
from gloveport.sandbox.egress.resolver import is_address
from gloveport.sandbox.egress.wire import Wire, WireEnd

IDLE_LOOKS = 4
"""How often the silence of a tunnel is looked at within the time it may last."""


async def take_hello(client: Wire, host: str) -> bytes:
    """The raw bytes of a ClientHello for this host. Raises HelloFault or WireEnd."""
    raw = handshake = b""
    while not is_whole(handshake):
        if len(raw) > HELLO_BYTES_MAX:
            raise HelloFault(f"limit hello_bytes_max of {HELLO_BYTES_MAX} bytes")
        head = await client.read_exactly(RECORD_HEAD)
        content = await client.read_exactly(record_length(head))
        raw, handshake = raw + head + content, handshake + content
    name = read_hello(handshake).name
    if name is None and is_address(host):
        return raw
    try:
        named = "no server" if name is None else read_host(name)
    except HostError as error:
        raise HelloFault("the TLS hello names a server in a spelling that is not taken") from error
    if named != host:
        raise HelloFault(f"the TLS hello names {named}, not {host}")
    return raw


async def pipe(client: Wire, upstream: Wire, idle_s: float) -> str:
    """Carry bytes until both ends are done; returns why it was cut, empty where it was not."""
    cuts: list[str] = []
    client.idle_s = upstream.idle_s = None
    async with anyio.create_task_group() as tasks:
        going = anyio.create_task_group()
        async with going:
            tasks.start_soon(partial(_watch_silence, client, upstream, idle_s, cuts, going.cancel_scope))
            going.start_soon(_copy, client, upstream, cuts, going.cancel_scope)
            going.start_soon(_copy, upstream, client, cuts, going.cancel_scope)
        tasks.cancel_scope.cancel()
    return cuts[0] if cuts else ""


async def _copy(source: Wire, target: Wire, cuts: list[str], scope: anyio.CancelScope) -> None:
    try:
        while piece := await source.read():
            await target.write(piece)
        await target.end()
    except WireEnd as error:
        cuts.append(str(error))
        scope.cancel()


async def _watch_silence(
    client: Wire, upstream: Wire, idle_s: float, cuts: list[str], scope: anyio.CancelScope
) -> None:
    silent, last = 0, -1
    while silent < IDLE_LOOKS:
        await anyio.sleep(idle_s / IDLE_LOOKS)
        now = client.received + upstream.received
        silent, last = (silent + 1, last) if now == last else (0, now)
    cuts.append(f"limit idle_s of {idle_s:g} s")
    scope.cancel()
