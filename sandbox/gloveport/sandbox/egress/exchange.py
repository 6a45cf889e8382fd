"""One request and its answer, carried between two ends.

Purpose: pass a checked request on and its answer back, each framed anew.
Invariant: exactly one request is sent for one that was decided; what follows it is read as a request of its own.
Must never: pass on a framing, an upgrade or a hop's own header as it came.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio
import h11

from gloveport.sandbox.egress.head import RequestHead, answered
from gloveport.sandbox.egress.wire import Wire, WireEnd

NO_ANSWER: Final = "no answer that can be passed on"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class Carried:
    """What became of an exchange; `status` is None until an answer began, `whole` is true when both bodies ended.

    `can_go_on`: the other side takes another request on its connection, and said nothing beyond its answer.
    """

    status: int | None = None
    whole: bool = False
    can_go_on: bool = False


class Mend(Protocol):
    """Changes an answer on its way in; the sizes may change."""

    def headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers to give."""
        ...

    def feed(self, data: bytes) -> bytes:
        """What of the body can be given now."""
        ...

    def finish(self) -> bytes:
        """What was held back."""
        ...


async def carry(
    client: Wire,
    upstream: Wire,
    head: RequestHead,
    path: bytes,
    headers: list[tuple[bytes, bytes]],
    head_bytes_max: int,
    mend: Mend | None = None,
) -> Carried:
    """Send the request, bring the answer. Raises WireEnd where either side fails before an answer began."""
    carried = Carried()
    ours, theirs = _meet(head), h11.Connection(h11.CLIENT, max_incomplete_event_size=head_bytes_max)
    faults: list[str] = []
    try:
        request = h11.Request(method=head.method, target=path, headers=headers)
        await upstream.write(theirs.send(request) or b"")
        if head.get(b"expect") is not None and head.has_body:
            await client.write(CONTINUE)
    except (h11.ProtocolError, WireEnd) as error:
        raise WireEnd(f"{NO_ANSWER}: {error}") from error
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_noting, _pump_request(client, upstream, ours, theirs), faults)
        await _noting(_pump_answer(client, upstream, ours, theirs, carried, mend), faults)
        tasks.cancel_scope.cancel()
    if carried.status is None:
        raise WireEnd(f"{NO_ANSWER}: {faults[0] if faults else 'the other side is gone'}")
    carried.whole = carried.whole and ours.our_state is h11.DONE and ours.their_state is h11.DONE
    carried.can_go_on = theirs.our_state is theirs.their_state is h11.DONE and not theirs.trailing_data[0]
    if carried.whole:
        client.unread(ours.trailing_data[0])
    return carried


async def _noting(work: Coroutine[Any, Any, None], faults: list[str]) -> None:
    """Do one half of an exchange; its failure is noted, and the other half goes on as far as it can."""
    try:
        await work
    except (h11.ProtocolError, WireEnd) as error:
        faults.append(str(error))


def _meet(head: RequestHead) -> h11.Connection:
    """A machine of the client's side that knows this request's method and framing and nothing else of it."""
    kept = [(b"host", b"inside")]
    kept += [one for one in head.headers if one[0] in (b"content-length", b"transfer-encoding")]
    kept.append((b"connection", b"close" if head.wants_close else b"keep-alive"))
    lines = b"".join(b"%s: %s\r\n" % one for one in kept)
    machine = h11.Connection(h11.SERVER)
    machine.receive_data(b"%s / HTTP/1.%d\r\n%s\r\n" % (head.method.encode("ascii"), head.minor, lines))
    machine.next_event()
    return machine


async def _pump_request(client: Wire, upstream: Wire, ours: h11.Connection, theirs: h11.Connection) -> None:
    while True:
        event = ours.next_event()
        if event is h11.NEED_DATA:
            ours.receive_data(await client.read())
        elif isinstance(event, h11.Data):
            await upstream.write(theirs.send(h11.Data(data=event.data)) or b"")
        elif isinstance(event, h11.EndOfMessage):
            await upstream.write(theirs.send(h11.EndOfMessage()) or b"")
            return
        else:
            raise WireEnd("the body of the request has no end")


async def _pump_answer(
    client: Wire, upstream: Wire, ours: h11.Connection, theirs: h11.Connection, carried: Carried, mend: Mend | None
) -> None:
    change: Callable[[bytes], bytes] = bytes if mend is None else mend.feed
    while True:
        event = theirs.next_event()
        if event is h11.NEED_DATA:
            theirs.receive_data(await upstream.read())
        elif isinstance(event, h11.Response):
            headers = answered(list(event.headers.raw_items()))
            headers = headers if mend is None else mend.headers(headers)
            carried.status = event.status_code
            await _give(client, ours, h11.Response(status_code=carried.status, headers=headers, reason=event.reason))
        elif isinstance(event, h11.Data):
            await _give(client, ours, h11.Data(data=change(bytes(event.data))))
        elif isinstance(event, h11.EndOfMessage):
            if mend is not None:
                await _give(client, ours, h11.Data(data=mend.finish()))
            await _give(client, ours, h11.EndOfMessage())
            carried.whole = True
            return
        elif not isinstance(event, h11.InformationalResponse):
            raise WireEnd("the other side is gone, or speaks HTTP no more")


async def _give(client: Wire, ours: h11.Connection, event: h11.Event) -> None:
    if data := ours.send(event):
        await client.write(data)
