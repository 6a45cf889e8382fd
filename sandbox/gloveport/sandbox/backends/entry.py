"""The first program inside a jail: a list of system calls, assembled for one run as a small ELF file.

Purpose: what must be done between the jail's own set-up and the command (Landlock, a filter that reports, then exec)
is done without an interpreter inside, in microseconds.
Invariant: the program makes exactly the calls of the list, in order; one that fails ends it before the command starts,
unless the list names where to go on.
Must never: hold logic of its own; what is decided is decided where the list is made.

The machine code is thirteen instructions: load a number and six arguments from the row, make the call, go to the next
row, or to the row that the failed one names. All addresses are known when the file is made, since it is not moved.
"""

import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

MACHINE: Final = "x86_64"
BASE: Final = 0x400000
HEADERS_BYTES: Final = 64 + 56
ROW: Final = struct.Struct("<Q6QQ")
_CODE_HEAD: Final = bytes.fromhex("48bb")  # mov rbx, table
_CODE: Final = bytes.fromhex(
    "488b03"  # row: mov rax, [rbx]
    "488b7b08"  # mov rdi, [rbx+8]
    "488b7310"  # mov rsi, [rbx+16]
    "488b5318"  # mov rdx, [rbx+24]
    "4c8b5320"  # mov r10, [rbx+32]
    "4c8b4328"  # mov r8, [rbx+40]
    "4c8b4b30"  # mov r9, [rbx+48]
    "0f05"  # syscall
    "4885c0"  # test rax, rax
    "7806"  # js failed
    "4883c340"  # add rbx, 64
    "ebd8"  # jmp row
    "488b5b38"  # failed: mov rbx, [rbx+56]
    "ebd2"  # jmp row
)
_CODE_BYTES: Final = len(_CODE_HEAD) + 8 + len(_CODE)
NUMBERS: Final[Mapping[str, int]] = MappingProxyType({
    "write": 1, "close": 3, "sendmsg": 46, "execve": 59, "setrlimit": 160, "exit_group": 231, "openat": 257,
    "seccomp": 317, "close_range": 436, "landlock_create_ruleset": 444, "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
})  # fmt: skip
AT_FDCWD: Final = (1 << 64) - 100
EXIT_NOT_ENTERED: Final = 126
EXIT_NOT_FOUND: Final = 127


def is_known_here(machine: str | None = None) -> bool:
    """Whether the program can be assembled for this processor."""
    return (machine or platform.machine()) == MACHINE


@dataclass(slots=True)
class _Row:
    number: int
    arguments: tuple[int, ...]
    on_failure: str | None


@dataclass(slots=True)
class Assembly:
    """A list of calls and the data they point to. Rows run in order; `on_failure` names a later label."""

    _data: bytearray = field(default_factory=bytearray)
    _rows: list[_Row] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def place(self, content: bytes) -> int:
        """Put bytes into the file; their address."""
        self._data += bytes(-len(self._data) % 8)
        address = BASE + HEADERS_BYTES + _CODE_BYTES + len(self._data)
        self._data += content
        return address

    def place_text(self, text: bytes) -> int:
        """Put a string that ends with NUL into the file; its address."""
        return self.place(text + b"\0")

    def place_addresses(self, texts: Sequence[bytes]) -> int:
        """Put strings and the list of their addresses, closed by a null, into the file; the list's address."""
        addresses = [self.place_text(text) for text in texts]
        return self.place(struct.pack(f"<{len(addresses) + 1}Q", *addresses, 0))

    def call(self, name: str, *arguments: int, on_failure: str) -> None:
        """Add a call; where it fails the program goes on at the label."""
        self._rows.append(_Row(NUMBERS[name], arguments, on_failure))

    def label(self, name: str) -> None:
        """Name the next row."""
        self._labels[name] = len(self._rows)

    def end(self, words: bytes, code: int) -> None:
        """Say the words on standard error and end."""
        row = len(self._rows)
        self._labels[f"end-{row}"] = row + 1
        self.call("write", 2, self.place(words), len(words), on_failure=f"end-{row}")
        self.call("exit_group", code, on_failure=f"end-{row}")

    def build(self) -> bytes:
        """The ELF file. Raises KeyError for a label that names no row."""
        self._data += bytes(-(HEADERS_BYTES + _CODE_BYTES + len(self._data)) % 8)
        table = BASE + HEADERS_BYTES + _CODE_BYTES + len(self._data)
        rows = b"".join(self._encode(row, table) for row in self._rows)
        body = _CODE_HEAD + struct.pack("<Q", table) + _CODE + bytes(self._data) + rows
        return _describe_file(HEADERS_BYTES + len(body)) + body

    def _encode(self, row: _Row, table: int) -> bytes:
        target = 0 if row.on_failure is None else table + ROW.size * self._labels[row.on_failure]
        return ROW.pack(row.number, *(row.arguments + (0,) * 6)[:6], target)


def _describe_file(size: int) -> bytes:
    """ELF header and one segment that is read and run, never written."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    entry = BASE + HEADERS_BYTES
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, size, size, 0x1000)
