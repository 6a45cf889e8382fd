"""Properties of the sandbox room's pure parts: the spool, the jail dialect, the filter, the view, the verdict.

Purpose: hold for any input what the contract suite shows for some.
"""

import errno
import json
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.replies import (
    ExitKind,
    RunExit,
    RunState,
    RunStatus,
    decode_exit,
    decode_status,
    encode_exit,
    encode_status,
)
from gloveport.protocol.jail.requests import CgroupPlan, RunLimits, RunRequest, decode_request, encode_request
from gloveport.sandbox.backends.seccomp import (
    ARCHITECTURES,
    NEW_NAMESPACE_FLAGS,
    REPORTED,
    SET_ID_BITS,
    build_filter,
    name_calls,
    name_set_id_calls,
)
from gloveport.sandbox.backends.view import Cover, Hidden, plan_mounts
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.profile import Access, Mount, is_below
from gloveport.sandbox.runner import watching
from gloveport.sandbox.runner.spool import CHUNK_BYTES, SpoolReader, SpoolWriter
from gloveport.sandbox.runner.verdict import Ending, Seen, decide_verdict

_ALLOW, _KILL, _ERRNO, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, 2**40)
maybe = st.none() | numbers
requests = st.builds(
    RunRequest,
    run_id=texts,
    argv=st.lists(texts, min_size=1, max_size=4).map(tuple),
    working_dir=texts,
    environment=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    stdin=st.binary(max_size=50),
    blobs=st.lists(st.binary(max_size=20), max_size=3).map(tuple),
    wrapper_depth=st.integers(0, 3),
    limits=st.builds(
        RunLimits,
        *[st.floats(0.1, 1e6), st.none() | st.floats(0.1, 1e6), maybe, maybe, maybe, maybe, maybe, numbers, numbers],
        st.floats(0, 100),
    ),
    cgroup=st.none()
    | st.builds(
        CgroupPlan, st.integers(1, 2), st.lists(texts, max_size=2).map(tuple),
        st.lists(st.tuples(texts, texts), max_size=2).map(tuple), texts, texts,
    ),
)  # fmt: skip
exits = st.builds(
    RunExit, st.sampled_from(ExitKind), st.none() | st.integers(0, 255), st.none() | st.integers(1, 64), texts,
    st.floats(0, 1e6), st.floats(0, 1e6), maybe, numbers,
)  # fmt: skip
statuses = st.builds(RunStatus, texts, st.sampled_from(RunState), texts, numbers, numbers, numbers, numbers)


@given(st.binary(max_size=40))
def test_any_address_is_words_or_nothing(address: bytes) -> None:
    """It lies in the memory of the run, which may hold anything."""
    said = watching._describe_place(address)
    assert said == "" or (said.startswith("connect ") and said.isprintable())


@given(request=requests, end=exits, status=statuses)
def test_jail_dialect_round_trips(request: RunRequest, end: RunExit, status: RunStatus) -> None:
    assert decode_request(encode_request(request)) == request
    assert decode_exit(encode_exit(end)) == end
    assert decode_status(encode_status(status)) == status


@given(end=exits, cut=st.integers(0, 400), name=st.sampled_from(["kind", "evidence", "wall_s", "version"]))
def test_damaged_end_is_an_error_never_a_wrong_value(end: RunExit, cut: int, name: str) -> None:
    """D01: a torn record is refused."""
    whole = encode_exit(end)
    if cut < len(whole):
        with pytest.raises(JailFormatError):
            decode_exit(whole[:cut])
    body = json.loads(whole)
    del body[name]
    with pytest.raises(JailFormatError):
        decode_exit(json.dumps(body).encode())


@given(
    sizes=st.lists(st.integers(1, CHUNK_BYTES), min_size=1, max_size=12),
    bytes_max=st.integers(1024, 200_000),
    reads=st.lists(st.booleans(), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_c12_spool_keeps_head_and_tail(sizes: list[int], bytes_max: int, reads: list[bool]) -> None:
    """C12: any output in a bounded file; a reader misses the middle at most, and never sees a wrong byte."""
    source = bytes(index * 31 % 251 for index in range(sum(sizes)))
    with tempfile.TemporaryDirectory() as name:
        writer, reader = SpoolWriter(Path(name), bytes_max), SpoolReader(Path(name), bytes_max)
        at, seen = 0, b""
        for index, size in enumerate(sizes):
            writer.write(source[at : at + size])
            at += size
            if index < len(reads) and reads[index]:
                seen += reader.read_new()
        while chunk := reader.read_new():
            seen += chunk
        kept, total, truncated = SpoolReader(Path(name), bytes_max).read_kept()
        writer.sync()
        assert (Path(name) / "output").stat().st_size <= bytes_max + CHUNK_BYTES
    assert total == len(source)
    assert truncated == (len(source) > bytes_max)
    half = bytes_max // 2
    assert kept == (source[:half] + source[-(bytes_max - half) :] if truncated else source)
    assert seen.startswith(source[: min(half, len(source))])
    assert seen.endswith(source[-min(len(source), 1000, bytes_max - half) :])
    if not truncated:
        assert seen == source


def run_filter(program: bytes, arch: int, number: int, arguments: tuple[int, ...]) -> int:
    """The verdict of the kernel's machine, as its documentation describes it."""
    data = struct.pack("<iIQ6Q", number, arch, 0, *(arguments + (0,) * 6)[:6])
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif code == 0x06:
            return operand
        else:
            met = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if met else if_false


@given(
    machine=st.sampled_from(sorted(ARCHITECTURES)),
    kind=st.sampled_from(["build", "small"]),
    number=st.integers(0, 600),
    arguments=st.tuples(
        st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 300), st.integers(0, 0o7777)
    ),
)
@settings(deadline=None)
def test_filter_decides_every_call(machine: str, kind: str, number: int, arguments: tuple[int, ...]) -> None:
    program, architecture = build_filter(kind, machine), ARCHITECTURES[machine]
    reporting = build_filter(kind, machine, REPORTED)
    assert program is not None
    assert reporting is not None
    counted, set_id = name_calls(kind, machine)[1], name_set_id_calls(machine)
    names = {value: name for name, value in architecture.numbers.items()}
    name = names.get(number, "")
    verdict = run_filter(program, architecture.audit, number, arguments)
    first, second, third = (value & 0xFFFFFFFF for value in arguments[:3])
    if name == "clone":
        expected = _ERRNO | errno.EPERM if first & NEW_NAMESPACE_FLAGS else _ALLOW
    elif name == "clone3":
        expected = _ERRNO | errno.ENOSYS
    elif name == "ioctl":
        expected = _ERRNO | errno.EPERM if second in (0x5412, 0x541C) else _ALLOW
    elif name in ("socket", "socketpair"):
        allowed = first in (1, 2, 10) or (first == 16 and third == 0)
        expected = _ALLOW if allowed else _ERRNO | errno.EAFNOSUPPORT
    elif name in ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"):
        expected = _ERRNO | errno.EPERM if kind == "small" else _ALLOW
    else:
        expected = _ERRNO | errno.EPERM if name and number not in (*counted.values(), *set_id) else _ALLOW
    assert verdict == expected, name
    # The filter that reports refuses nothing by itself and lets nothing through that the silent one refuses.
    reported = run_filter(reporting, architecture.audit, number, arguments)
    if verdict != _ALLOW and name != "clone3" and number < 0x40000000:
        assert reported == _NOTIFY, name
    elif verdict == _ALLOW:
        mode = arguments[set_id[number]] if set_id.get(number, -1) >= 0 else 0
        noted = number in counted.values() or name == "openat2" or bool(mode & SET_ID_BITS)
        assert reported == (_NOTIFY if noted else _ALLOW), name


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
@pytest.mark.parametrize("family", [1, 2, 10, 16, 17, 38, 40])
def test_filter_lets_ordinary_families_through(machine: str, family: int) -> None:
    program, architecture = build_filter("small", machine), ARCHITECTURES[machine]
    assert program is not None
    verdict = run_filter(program, architecture.audit, architecture.numbers["socket"], (family, 1, 0))
    assert (verdict == _ALLOW) == (family in (1, 2, 10, 16))
    assert run_filter(program, 0x40000003, 1, ()) == _KILL


def test_foreign_machine_has_no_filter() -> None:
    assert build_filter("small", "riscv64") is None


@given(
    status=st.integers(-64, 255), kills=st.integers(0, 2), ended=st.booleans(), wrapped=st.booleans(),
    reported=st.booleans(), cpu_max=st.none() | st.integers(1, 5), cpu=st.floats(0, 10),
)  # fmt: skip
def test_verdict_comes_from_evidence_not_from_numbers(
    status: int, kills: int, ended: bool, wrapped: bool, reported: bool, cpu_max: int | None, cpu: float
) -> None:
    ending = Ending(ExitKind.TIMEOUT, "wall limit") if ended else None
    verdict = decide_verdict(Seen(status, ending, kills, 100, cpu, cpu_max, wrapped, reported))
    assert verdict.evidence
    if kills:
        assert verdict.kind is ExitKind.OOM
    elif ended:
        assert verdict.kind is ExitKind.TIMEOUT
    elif verdict.kind is ExitKind.TIMEOUT:
        assert cpu_max is not None
        assert cpu >= cpu_max
    elif verdict.kind is ExitKind.OK:
        assert status == 0
        assert reported or not wrapped
    else:
        assert verdict.kind in (ExitKind.FAILED, ExitKind.POLICY)
        assert (verdict.kind is ExitKind.POLICY) <= (status == -31)


names = st.sampled_from(["a", "b", "ab", "data"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(source=paths, hidden=paths, access=st.sampled_from(Access))
@settings(max_examples=60, deadline=None)
def test_nothing_hidden_is_in_a_view(source: str, hidden: str, access: Access) -> None:
    """B12: containment goes by components, so `/a/b` does not cover `/a/bc`."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / source).mkdir(parents=True)
        (root / hidden).mkdir(parents=True, exist_ok=True)
        shown, covered = str(root / source), str(root / hidden)
        layer = str(root / "layer") if access is Access.COPY_ON_WRITE else ""
        (root / "layer").mkdir()
        try:
            placings = plan_mounts((Mount(shown, "/mnt/x", access, layer),), Hidden([root / hidden]), layers=True)
        except SandboxError:
            assert is_below(shown, covered) or (is_below(covered, shown) and access is Access.READ_WRITE)
            return
    assert not is_below(shown, covered)
    if is_below(covered, shown):
        assert access is not Access.READ_WRITE
        assert [(p.cover, p.target) for p in placings[1:]] == [(Cover.EMPTY_FOLDER, "/mnt/x" + covered[len(shown) :])]
    else:
        assert len(placings) == 1
