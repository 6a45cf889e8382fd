"""Runs inside a jail: a port of its loopback for each way out, and then the program.

Purpose: carry bytes between programs that know TCP alone and the lease's proxy socket.
Invariant: the ports are open before the program starts; the program gets this process, and no child it did not start.
Must never: import anything but the standard library, decide anything, or outlive the program's namespace.

Usage: bridge.py SOCKET PORT [LOCAL_PORT=HOST:PORT …] -- PROGRAM [ARGUMENT …]
"""

import contextlib
import os
import selectors
import socket
import sys

PIECE_BYTES = 256 * 1024
HELD_BYTES_MAX = 1024 * 1024
ANSWER_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 128
UNUSABLE = 125


class Side:
    """One end of a carried connection, and what waits to be written to it."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.waiting = bytearray()
        self.other = self
        self.ended = self.told = self.dropped = False
        self.events = 0
        self.answer: bytearray | None = None


class Bridge:
    """Accepts on loopback and carries to the socket, in one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listeners: list[tuple[socket.socket, str | None]] = []
        self._count = 0

    def listen(self, port: int, place: str | None) -> None:
        """Open a port on 127.0.0.1, and on ::1 where there is one. `place`: what a fixed port leads to."""
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                link = socket.socket(family)
                link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                link.bind((address, port))
            except OSError:
                if family == socket.AF_INET:
                    raise
                continue
            link.listen(64)
            link.setblocking(False)
            self._listeners.append((link, place))

    def serve(self) -> None:
        """Carry until the namespace ends."""
        self._selector = selectors.DefaultSelector()
        for number, (link, _place) in enumerate(self._listeners):
            self._selector.register(link, selectors.EVENT_READ, number)
        while True:
            for key, events in self._selector.select():
                if not isinstance(key.data, Side):
                    self._accept(*self._listeners[key.data])
                    continue
                try:
                    if events & selectors.EVENT_WRITE and not key.data.dropped:
                        self._write(key.data)
                    if events & selectors.EVENT_READ and not key.data.dropped:
                        self._read(key.data)
                except OSError:
                    self._drop(key.data)

    def _accept(self, listener: socket.socket, place: str | None) -> None:
        try:
            link, _address = listener.accept()
        except OSError:
            return
        out = socket.socket(socket.AF_UNIX)
        try:
            if self._count >= CONNECTIONS_MAX:
                raise OSError
            out.connect(self._path)
        except OSError:
            link.close()
            out.close()
            return
        self._count += 1
        inner, outer = Side(link), Side(out)
        inner.other, outer.other = outer, inner
        for side in (inner, outer):
            side.link.setblocking(False)
            self._watch(side)
        if place is not None:
            outer.answer = bytearray()
            outer.waiting += f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode("ascii")
            self._write(outer)

    def _read(self, side: Side) -> None:
        other = side.other
        try:
            piece = side.link.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        if side.answer is not None and piece:
            side.answer += piece
            head, end, piece = bytes(side.answer).partition(b"\r\n\r\n")
            if not end and len(side.answer) <= ANSWER_BYTES_MAX:
                return
            if not head.startswith(b"HTTP/1.1 200 "):
                raise OSError
            side.answer = None
            if not piece:
                return
        if piece and not other.waiting:  # nothing is ahead of it: most goes at once, without being kept
            with contextlib.suppress(BlockingIOError):
                piece = piece[other.link.send(piece) :]
        elif not piece:
            side.ended = True
        other.waiting += piece
        self._write(other)

    def _write(self, side: Side) -> None:
        """Write what waits; pass an end on when nothing does; let go when both sides ended."""
        with contextlib.suppress(BlockingIOError):
            while side.waiting:
                del side.waiting[: side.link.send(side.waiting)]
        other = side.other
        if other.ended and not side.waiting and not side.told:
            side.told = True
            with contextlib.suppress(OSError):
                side.link.shutdown(socket.SHUT_WR)
        if side.told and other.told and not other.waiting:
            self._drop(side)
            return
        self._watch(side)
        self._watch(other)

    def _watch(self, side: Side) -> None:
        """Read unless it ended or the other side lags behind; write while something waits."""
        reads = not side.ended and len(side.other.waiting) < HELD_BYTES_MAX
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if side.waiting else 0)
        if events == side.events:
            return
        if side.events and events:
            self._selector.modify(side.link, events, side)
        elif events:
            self._selector.register(side.link, events, side)
        else:
            self._selector.unregister(side.link)
        side.events = events

    def _drop(self, side: Side) -> None:
        for one in (side, side.other):
            if one.events:
                self._selector.unregister(one.link)
            one.link.close()
            one.dropped, one.events = True, 0
        self._count -= 1


def serve_apart(bridge: Bridge) -> None:
    """Serve in a process that the program is no parent of, without its pipes."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.chdir("/")
            bridge.serve()
    finally:
        os._exit(0)


def main(words: list[str]) -> None:
    """Open the ports, serve apart, become the program."""
    path, port, *rest = words
    cut = rest.index("--")
    forwards, argv = rest[:cut], rest[cut + 1 :]
    bridge = Bridge(path)
    try:
        bridge.listen(int(port), None)
        for forward in forwards:
            local, _sign, place = forward.partition("=")
            bridge.listen(int(local), place)
        serve_apart(bridge)
    except OSError as error:
        sys.stderr.write(f"the sandbox's way out could not be opened: {error.strerror}\n")
        sys.exit(UNUSABLE)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the program of the run, as it was given
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
