"""A daemon program for tests of starting one: the memory backend behind a real lease, socket and token."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyio
from tests.kit.memory_backend import TEST_METHODS, MemoryBackend

from gloveport.server.client.paths import find_places
from gloveport.server.journal.lease import DataLease
from gloveport.server.transports.lsp.endpoint import Endpoint
from gloveport.server.transports.lsp.handlers.lifecycle import About
from gloveport.server.transports.lsp.loop import Service
from gloveport.server.transports.lsp.socketfile import bind_socket, write_token


async def main() -> None:
    """Serve until a signal comes."""
    places, backend, stop = find_places(), MemoryBackend(), anyio.Event()
    with DataLease.acquire(places.data_dir) as lease:
        await anyio.sleep(float(os.environ.get("GLOVEPORT_TEST_SLOW_START", "0")))
        (places.data_dir / f"started.{os.getpid()}").touch()
        about = About("0.1.0", lease.owner.generation, write_token(places.token))
        service = Service(methods=TEST_METHODS, port=backend, hub=backend.hub, buffers=backend, about=about)
        file = bind_socket(places.socket, lease)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Endpoint(service, file.listener).serve, stop)
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    async for _ in signals:
                        break
                stop.set()
        finally:
            file.close()


if __name__ == "__main__":
    anyio.run(main)
