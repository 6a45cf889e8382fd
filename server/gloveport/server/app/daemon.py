"""The daemon from its first moment to its last.

Purpose: take the lease, open the journal, accept clients at once, then open the rooms that do the work.
Invariant: the lease is held before anything is read or written; a request waits until the rooms are open, or is told
    why they cannot be; a signal ends the daemon within a second.
Must never: load the rooms before clients are accepted: an editor waits for its first answer.
"""

import asyncio
import gc
import importlib
import logging
import secrets
import signal
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.server.app.front import Front, Late, LateMethods
from gloveport.server.app.live_settings import LiveSettings, secret_values
from gloveport.server.audit.checkpoint import load_key
from gloveport.server.client.paths import Places, other_data_dirs
from gloveport.server.client.private import make_dir
from gloveport.server.commands.buffers import BufferTable
from gloveport.server.journal.lease import DataLease, current_boot_id
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal
from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.logs import RedactingFilter
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.lsp.endpoint import Endpoint
from gloveport.server.transports.lsp.handlers.lifecycle import About
from gloveport.server.transports.lsp.loop import Service
from gloveport.server.transports.lsp.socketfile import bind_socket, write_token
from gloveport.server.transports.lsp.uris import uri_path
from gloveport.server.version import build_version

_log = logging.getLogger("gloveport")

REDACTION_KEY: Final = "redaction.key"
"""Of this data directory alone: digests of secrets match within its records, and with no other's."""
ROOMS: Final = "gloveport.server.app.rooms"
NEW_OBJECTS: Final = 10_000
"""So many are made before those in a circle are looked for: looking each 700 is half the time of reading a log."""
TELL_S: Final = 0.3
"""How long clients that wait are told why the rooms cannot be opened, before the daemon ends."""


def now_us() -> int:
    """UTC microseconds."""
    return time.time_ns() // 1_000


def new_id(prefix: str) -> str:
    """A fresh identifier that sorts by time of making."""
    return f"{prefix}-{now_us():014x}{secrets.token_hex(5)}"


async def serve(places: Places, settings_home: Path) -> None:
    """Run the daemon of `places` until a signal or daemon/stop. Raises GloveportError when it cannot begin."""
    settings = LiveSettings(settings_home)
    async with AsyncExitStack() as stack:
        make_dir(places.data_dir)
        lease = DataLease.acquire(places.data_dir)
        stack.callback(lease.release)
        redactor = Redactor(secret_values(settings()), key=_redaction_key(places.data_dir))
        for handler in logging.getLogger().handlers:
            handler.addFilter(RedactingFilter(redactor))
        older = _older_data(places)
        boot = current_boot_id()
        journal, report = await Journal.open(places.data_dir, clock=now_us, boot_id=boot, lease=lease, away=places.mark)
        stack.push_async_callback(journal.close)
        _log.info("journal opened: %s", report)
        late = Late()
        front = Front(
            places=places,
            settings_home=settings_home,
            settings=settings,
            redactor=redactor,
            lease=lease,
            journal=journal,
            boot_id=boot,
            hub=Hub(journal, late.projections()),
            buffers=BufferTable(uri_path),
            stop=anyio.Event(),
            now_us=now_us,
            new_id=new_id,
            older_data=older,
        )
        journal.watch(partial(_tell_standing, front))
        failure = await _accept(stack, front, late)
    if failure is not None:
        raise failure


def _redaction_key(data_dir: Path) -> bytes:
    """The key of digests in records; empty where the disk refuses, and then a secret's place tells nothing at all."""
    try:
        return load_key(data_dir / REDACTION_KEY)
    except OSError as error:
        _log.warning("%s cannot be had (%s): places of secrets are not told apart", REDACTION_KEY, error.strerror)
        return b""


def _older_data(places: Places) -> tuple[Path, ...]:
    """Other data of this user, when there is none here yet: it must not look as if it were gone."""
    if (places.data_dir / DATABASE_FILE).exists():
        return ()
    found = tuple(place for place in other_data_dirs() if (place / DATABASE_FILE).is_file())
    for place in found:
        _log.warning("found older data at %s; this daemon begins anew in %s", place, places.data_dir)
    return found


def _tell_standing(front: Front) -> None:
    """The journal stopped, or accepts again: every client hears of it, and followers that waited read on."""
    from gloveport.server.commands.standing import notice_of  # with the wire's words, which the first clients need not

    health = front.journal.health()
    _log.warning("the journal %s", "accepts again" if health.accepting else f"stopped: {health.stopped_reason}")
    front.hub.pause(paused=not health.accepting)
    front.bulletin.post(notice_of(health))


async def _accept(stack: AsyncExitStack, front: Front, late: Late) -> GloveportError | None:
    """Serve clients until the end; what kept the rooms from opening is returned."""
    head = await front.journal.head(DAEMON_STREAM)
    epoch = head.epoch if head is not None else 1
    about = About(server_version=build_version(), epoch=epoch, decision_token=write_token(front.places.token))
    service = Service(
        LateMethods(), late, front.hub, front.buffers, about, bulletin=front.bulletin, changes=front.changes
    )
    socket_file = bind_socket(front.places.socket, front.lease)
    stack.callback(socket_file.close)
    endpoint = Endpoint(service, socket_file.listener)
    front.clients = lambda: endpoint.clients
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, front.stop)
        async with anyio.create_task_group() as clients:
            clients.start_soon(endpoint.serve, front.stop)
            failure = await _open_rooms(stack, front, late, tasks)
            await front.stop.wait()
        tasks.cancel_scope.cancel()
    return failure


async def _open_rooms(stack: AsyncExitStack, front: Front, late: Late, tasks: TaskGroup) -> GloveportError | None:
    """Open the rooms; what keeps them from opening is told to who waits, ends the daemon, and is returned."""
    with anyio.CancelScope() as opening:
        tasks.start_soon(_cancel_at, front.stop, opening)
        try:
            rooms = await anyio.to_thread.run_sync(_load_rooms, abandon_on_cancel=True)
            late.open(await rooms.open_rooms(front, stack, tasks))
        except GloveportError as failure:
            late.fail(failure)
            await anyio.sleep(TELL_S)
            front.stop.set()
            return failure
    return None


async def _cancel_at(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


def _load_rooms() -> Any:
    """Load what does the work, in a thread: clients are answered meanwhile."""
    gc.disable()
    try:
        return importlib.import_module(ROOMS)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
        gc.enable()


async def _watch_signals(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            _log.info("signal %s: the daemon ends", number)
            stop.set()
            return


def run(places: Places, settings_home: Path) -> None:
    """Run the daemon in the foreground."""
    asyncio.run(serve(places, settings_home))
