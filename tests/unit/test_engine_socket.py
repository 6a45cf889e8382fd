"""The supervisor's own client of an engine, against servers that answer wrong."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gloveport.protocol.jail.requests import EnginePlan
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket, remove_container


@contextmanager
def answering(folder: Path, answer: bytes) -> Iterator[str]:
    """A server on a unix socket that says this to each that connects, and closes."""
    path = str(folder / "engine.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(8)

        def serve() -> None:
            while True:
                try:
                    link, _address = server.accept()
                except OSError:
                    return
                with link:
                    link.recv(65536)
                    link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (b"", 0, "no head"),
        (b"nonsense\r\n\r\n", 0, "not HTTP"),
        (b"HTTP/1.0 200 OK\r\n\r\n{", 0, "not JSON"),
        (b'HTTP/1.0 409 Conflict\r\n\r\n{"message":"in use"}', 409, "in use"),
        (b"HTTP/1.0 500 Oops\r\n\r\nplain words", 500, "plain words"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", 404, "no reason"),
        (b"HTTP/1.0 200 OK\r\n" + b"x" * 200_000, 0, "no head"),
    ],
)
def test_a_wrong_answer_is_an_error_with_words(tmp_path: Path, answer: bytes, status: int, words: str) -> None:
    with answering(tmp_path, answer) as path:
        with pytest.raises(EngineError, match=words) as caught:
            EngineSocket(path, 5.0).call("GET", "/info")
        assert caught.value.status == status
        assert not remove_container(EnginePlan(path, "x", "", ""))


def test_a_right_answer_is_read_whole(tmp_path: Path) -> None:
    body = b'{"a": "' + b"x" * 300_000 + b'"}'
    with answering(tmp_path, b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n" + body) as path:
        assert len(EngineSocket(path, 5.0).call("GET", "/info")["a"]) == 300_000
    (tmp_path / "again").mkdir()
    with answering(tmp_path / "again", b"HTTP/1.0 204 No Content\r\n\r\n") as path:
        assert EngineSocket(path, 5.0).call("DELETE", "/x") is None


def test_an_engine_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        EngineSocket(str(tmp_path / "none.sock")).call("GET", "/info")
    assert not remove_container(EnginePlan(str(tmp_path / "none.sock"), "x", "", ""))
