"""The blob store: content addressed, capped, whole or not there."""

import hashlib
import os
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.blobs import BLOBS_FOLDER, RANGE_BYTES_MAX, BlobRef, BlobStore
from gloveport.server.journal.errors import JournalError


async def refused(work: object) -> ErrorCode:
    """The code with which an operation is refused."""
    with pytest.raises(JournalError) as caught:
        await work  # type: ignore[misc]  # any of the store's coroutines
    return caught.value.code


async def test_put_get_has_size(tmp_path: Path) -> None:
    """A body is named by its SHA-256, kept once, and there after a reopen, for this user alone."""
    store = await BlobStore.open(tmp_path)
    ref = await store.put(b"body")
    assert ref == BlobRef(hashlib.sha256(b"body").hexdigest(), 4)
    assert await store.put(b"body") == ref
    assert store.used_bytes == 4
    again = await BlobStore.open(tmp_path)
    assert again.used_bytes == 4
    assert await again.get(ref.digest) == b"body"
    assert await again.has(ref.digest)
    assert await again.size(ref.digest) == 4
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 400))
def test_ranges_are_slices(tmp_path_factory: pytest.TempPathFactory, body: bytes, offset: int, length: int) -> None:
    """Any range is what a slice of the body is."""

    async def run() -> None:
        store = await BlobStore.open(tmp_path_factory.mktemp("blobs"))
        ref = await store.put(body)
        assert await store.read_range(ref.digest, offset, length) == body[offset : offset + length]

    anyio.run(run)


async def test_limits_are_named_and_leave_nothing(tmp_path: Path) -> None:
    """Too large a body and a full store are refused typed; no part is left behind."""
    store = await BlobStore.open(tmp_path, blob_bytes_max=10, store_bytes_max=15)
    await store.put(b"0123456789")
    assert await refused(store.put(b"01234567890")) is ErrorCode.LIMIT
    assert await refused(store.put(b"abcdef")) is ErrorCode.LIMIT
    await store.put(b"abcde")
    assert store.used_bytes == 15
    assert [path for path in (tmp_path / BLOBS_FOLDER).iterdir() if path.is_file()] == []
    assert await store.delete(hashlib.sha256(b"abcde").hexdigest())
    assert not await store.delete(hashlib.sha256(b"abcde").hexdigest())
    assert store.used_bytes == 10
    await store.put(b"vwxyz")


async def test_missing_damaged_and_badly_named_blobs(tmp_path: Path) -> None:
    """Each is one typed answer; a name never becomes a path."""
    store = await BlobStore.open(tmp_path)
    ref = await store.put(b"body")
    assert await refused(store.get("0" * 64)) is ErrorCode.BLOB_MISSING
    assert await refused(store.size("0" * 64)) is ErrorCode.BLOB_MISSING
    assert await refused(store.read_range("0" * 64, 0, 1)) is ErrorCode.BLOB_MISSING
    assert await refused(store.read_range(ref.digest, -1, 1)) is ErrorCode.INVALID_PARAMS
    for name in ("../../etc/passwd", "A" * 64, "0" * 63, ""):
        assert await refused(store.get(name)) is ErrorCode.INVALID_PARAMS
    path = tmp_path / BLOBS_FOLDER / ref.digest[:2] / ref.digest
    path.write_bytes(b"b0dy")
    assert await refused(store.get(ref.digest)) is ErrorCode.CORRUPT


async def test_file_is_copied_and_links_are_not_followed(tmp_path: Path) -> None:
    """Output captured in a file goes in as it is; a planted link or a missing file does not."""
    source = tmp_path / "output"
    body = os.urandom(3 * 1024 * 1024)
    source.write_bytes(body)
    store = await BlobStore.open(tmp_path)
    ref = await store.put_file(source)
    assert await store.get(ref.digest) == body
    assert len(await store.read_range(ref.digest, 0, RANGE_BYTES_MAX + 1)) == len(body)
    link = tmp_path / "link"
    link.symlink_to(source)
    assert await refused(store.put_file(link)) is ErrorCode.NOT_SAVED
    assert await refused(store.put_file(tmp_path / "none")) is ErrorCode.NOT_SAVED


async def test_half_written_part_of_a_crash_is_removed(tmp_path: Path) -> None:
    """What a crash left half written is no blob and is gone after the next open."""
    await BlobStore.open(tmp_path)
    part = tmp_path / BLOBS_FOLDER / "123.part"
    part.write_bytes(b"half")
    store = await BlobStore.open(tmp_path)
    assert not part.exists()
    assert store.used_bytes == 0


async def test_many_puts_at_once(tmp_path: Path) -> None:
    """Concurrent puts of equal and different bodies end with each body once."""
    store = await BlobStore.open(tmp_path)
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(store.put, b"%d" % (number % 10))
    assert store.used_bytes == 10
