"""The signed checkpoint beside the log.

Purpose: say how far the log had come and with which digest, so that a cut or rewritten log is found.
Invariant: a checkpoint is replaced whole or not at all; its mark (HMAC-SHA256 with a key of this user, 0600) covers
every field.
Must never: be taken for proof against its own user or root, who can read the key; only an exported checkpoint kept on
another machine is that.
"""

import hashlib
import hmac
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gloveport.server.audit.line import Link, canonical, read_object

KEY_BYTES: Final = 32
EMPTY_CHECKPOINT: Final = "the checkpoint is empty"
"""What a power loss may leave of a file that was replaced; nothing else that is wrong with one is so."""
_CHECKPOINT_BYTES_MAX: Final = 4096
_FIELDS: Final = (("at", int), ("boot_id", str), ("head", str), ("mark", str), ("rules_hash", str), ("seq", int))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the log had come (`seq`, `head`), when (UTC microseconds), on which boot and under which rules."""

    seq: int
    head: str
    at: int
    boot_id: str
    rules_hash: str

    @property
    def link(self) -> Link:
        """The line it speaks of."""
        return Link(self.seq, self.head)


def checkpoint_path(log: Path) -> Path:
    """Where the checkpoint of a log lies."""
    return log.with_name(log.name + ".checkpoint")


def key_path(log: Path) -> Path:
    """Where the key of a log's checkpoints lies unless its owner keeps it elsewhere."""
    return log.with_name(log.name + ".key")


def load_key(path: Path) -> bytes:
    """The key, made at first use; raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "r+b") as file:
        key = file.read(KEY_BYTES)
        if len(key) < KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            file.seek(0)
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
    return key


def read_key(path: Path) -> bytes | None:
    """The key if it is there and may be read. Raises OSError where that cannot be seen now."""
    try:
        key = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    return key if len(key) == KEY_BYTES else None


def write_checkpoint(path: Path, checkpoint: Checkpoint, key: bytes) -> None:
    """Replace the checkpoint. Raises OSError."""
    values = asdict(checkpoint)
    text = canonical({**values, "mark": _mark(checkpoint, key)})
    put_file(path, text)


def put_file(path: Path, text: bytes) -> None:
    """Replace a file of this user alone: temporary file, fsync, rename. Raises OSError."""
    part = path.with_name(path.name + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(part, flags, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_checkpoint(path: Path, key: bytes | None) -> Checkpoint | str | None:
    """The checkpoint; None when there is none; words when it is damaged or (given the key) its mark is wrong.

    Raises OSError where it cannot be read now.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_CHECKPOINT_BYTES_MAX)
    except FileNotFoundError:
        return None
    if not text:
        return EMPTY_CHECKPOINT
    values = read_object(text) or {}
    if tuple((name, type(values[name])) for name in sorted(values)) != _FIELDS:
        return "the checkpoint is damaged"
    mark = values.pop("mark")
    checkpoint = Checkpoint(**values)
    if key is not None and not hmac.compare_digest(mark.encode(), _mark(checkpoint, key).encode()):
        return "the checkpoint's mark is not this user's"
    return checkpoint


def _mark(checkpoint: Checkpoint, key: bytes) -> str:
    return hmac.new(key, canonical(asdict(checkpoint)), hashlib.sha256).hexdigest()
