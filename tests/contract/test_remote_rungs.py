"""What another machine adds to the contract: who it is, what is sent, cuts, and a machine that lies or goes away.

Purpose: the promises of the rungs `remote-ssh` and `remote-tls`, each with a real sshd, a real engine and real cuts.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio
from tests.kit.remotes import SOON_S, Authority, Liar, Relay, free_port, make_key, read_key, remote_machine
from tests.kit.sandboxes import PROJECT, REMOTE_RUNGS, Rig, list_host_processes, open_rig, wait_gone

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends import remote
from gloveport.sandbox.backends.docker_plan import OWNER_LABEL, RUN_LABEL
from gloveport.sandbox.backends.remote import RemoteSshSandbox, RemoteTlsSandbox
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.contract import Availability, Claim, Execution, ResultKind, SandboxError, Strength
from gloveport.sandbox.monitor.levels import Level, level_of
from gloveport.sandbox.profile import Access, Mount
from gloveport.sandbox.runner import link, rundir, tree
from gloveport.sandbox.runner.engine_api import EngineSocket

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine]
MIB = 1024 * 1024


@pytest_asyncio.fixture(params=REMOTE_RUNGS, scope="module", loop_scope="module")
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as rig:
        yield rig


@pytest.fixture
def rig(opened: Rig) -> Rig:
    opened.empty_project()
    return opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ssh() -> AsyncIterator[Rig]:
    async with open_rig("remote-ssh") as rig:
        yield rig


@contextlib.asynccontextmanager
async def relayed(folder: Path, relay: Relay, **changes: object) -> AsyncIterator[Rig]:
    """The TLS rung through a relay."""
    choice = replace(remote_machine().choose("tls"), port=relay.port, **changes)  # type: ignore[arg-type] # - by name
    async with rig_with("remote-tls", folder, choice) as rig:
        yield rig


@contextlib.asynccontextmanager
async def rig_with(name: str, folder: Path, choice: RemoteChoice) -> AsyncIterator[Rig]:
    """A rung with other settings than the usual ones."""
    folder.mkdir(exist_ok=True)
    rig = Rig(name, folder, remotes={name: choice})
    rig.availability = await rig.backend.probe()
    assert rig.availability.ok, rig.availability.reason
    try:
        yield rig
    finally:
        await rig.backend.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay(remote_machine().tls_port)
    yield made
    made.close()


def far(path: str) -> Any:
    """What the other machine's engine answers."""
    return EngineSocket(str(remote_machine().engine.socket)).call("GET", path)


def list_far(rig: Rig, run_id: str) -> list[dict[str, Any]]:
    """Containers of a run."""
    found = far("/containers/json?all=1")
    status = rig.runs_dir.joinpath(rig.name).stat()
    owner = f"-{status.st_dev}-{status.st_ino}"
    labels = [(one, one["Labels"]) for one in found]
    return [one for one, label in labels if label[RUN_LABEL] == run_id and label[OWNER_LABEL].endswith(owner)]


async def try_ssh(folder: Path, **changes: object) -> Availability:
    """What the trial finds with other settings."""
    choice = replace(remote_machine().choose("ssh"), **changes)  # type: ignore[arg-type] # - by name
    backend = RemoteSshSandbox(folder, choice=choice)
    try:
        return await backend.probe()
    finally:
        await backend.close()


async def try_tls(folder: Path, **changes: object) -> Availability:
    """The same for TLS."""
    choice = replace(remote_machine().choose("tls"), **changes)  # type: ignore[arg-type] # - by name
    backend = RemoteTlsSandbox(folder, choice=choice)
    try:
        return await backend.probe()
    finally:
        await backend.close()


async def first_words(execution: Execution) -> bytes:
    """The first chunk of output."""
    async for chunk in execution.output():
        return chunk
    raise AssertionError((await execution.result()).evidence)


# --- who it is


async def test_another_host_key_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    found = await try_ssh(tmp_path / "runs", host_key=read_key(tmp_path / "other.pub"))
    assert (found.ok, found.holds) == (False, frozenset())
    assert "host key" in found.reason.lower()
    assert "host_key" in found.fix


async def test_a_machine_that_comes_back_with_another_key_is_refused(tmp_path: Path) -> None:
    machine = remote_machine()
    make_key(machine.folder / "new-host")
    other = machine.start_sshd("new-host")
    try:
        pinned = await try_ssh(tmp_path / "runs", port=other.port)
        told = await try_ssh(tmp_path / "told", port=other.port, host_key=other.host_key)
    finally:
        other.stop()
    assert not pinned.ok
    assert "host_key" in pinned.fix
    assert told.ok, "positive control: with its own key pinned that server is taken"


async def test_each_fault_of_the_way_has_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C05: what is wrong and what mends it."""
    make_key(tmp_path / "stranger")
    shown = tmp_path / "shown"
    shown.write_bytes((tmp_path / "stranger").read_bytes())
    shown.chmod(0o644)
    cases: list[tuple[dict[str, object], str]] = [
        ({"key": str(tmp_path / "stranger")}, "authorized_keys"),
        ({"key": str(shown)}, "Mend the setting"),
        ({"key": str(tmp_path / "none")}, "Mend the setting"),
        ({"port": free_port()}, "your network"),
        ({"socket": "/nowhere/docker.sock"}, "engine runs over there"),
        ({"image": "nobody/has-this"}, "scripts/image.py"),
        ({"runtime": "kata"}, "configuration"),
    ]
    for changes, words in cases:
        found = await try_ssh(tmp_path / "runs", **changes)
        assert not found.ok, changes
        assert words in found.fix, (changes, found)
    monkeypatch.setattr(link, "_ENVIRONMENT", {"PATH": str(tmp_path)})
    found = await try_ssh(tmp_path / "runs")
    assert "openssh-client" in found.fix


@pytest.mark.parametrize(
    "changes", [{"host": "-oProxyCommand=touch /tmp/x"}, {"user": "-lroot"}, {"host": "a b"}, {"host_key": "x y"},
                {"socket": "relative"}, {"key": "/a:b"}, {"host": ""}, {"image": ""}, {"user": ""}],
)  # fmt: skip
async def test_settings_are_read_strictly(tmp_path: Path, changes: dict[str, object]) -> None:
    found = await try_ssh(tmp_path / "runs", **changes)
    assert (found.ok, bool(found.fix)) == (False, True)
    assert "[remote-ssh]" in found.reason + found.fix


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In either direction; and no variable of the environment changes whom we trust."""
    other = Authority(tmp_path / "other")
    certificate, key = other.issue("client")
    ours = remote_machine().authority.certificate
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "DOCKER_CERT_PATH"):
        monkeypatch.setenv(name, str(ours))
    found = await try_tls(tmp_path / "runs", ca=str(other.certificate))
    assert not found.ok, "the bundle of the environment would vouch for the engine"
    assert "authority" in found.fix
    found = await try_tls(tmp_path / "runs", cert=str(certificate), key=str(key))
    assert not found.ok
    assert "certificate" in found.fix
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(other.certificate))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    found = await try_tls(tmp_path / "runs")
    assert found.ok, found.reason


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    found = await try_tls(tmp_path / "runs", host="localhost")
    assert not found.ok
    assert "certificate" in found.reason


async def test_without_settings_there_is_no_machine(tmp_path: Path) -> None:
    found = await RemoteSshSandbox(tmp_path / "runs").probe()
    assert "[remote-ssh]" in found.fix
    assert (await RemoteTlsSandbox(tmp_path / "runs", choice=RemoteChoice()).probe()).holds == frozenset()


async def test_the_strength_is_that_of_what_was_seen(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the other machine has this one's kernel: a container, and the words say so. Elsewhere it is a machine."""
    assert rig.backend.strength is Strength.CONTAINER
    assert "that machine is this one" in rig.backend.statement

    async def elsewhere(_rung: object) -> str:
        return "the name of another boot"

    monkeypatch.setattr(remote, "read_boot_id", elsewhere)
    other = rig.open(rig.folder / "others")
    assert (await other.probe()).ok
    assert other.strength is Strength.VIRTUAL_MACHINE
    assert "not on yours" in other.statement
    await other.close()


# --- what is sent


async def test_nothing_of_this_machine_is_mounted_over_there(rig: Rig, tmp_path: Path) -> None:
    (rig.project / "here.txt").write_text("sent")
    (tmp_path / "seen.txt").write_text("read")
    lease = await rig.lease(mounts=(Mount(str(tmp_path), "/mnt/seen", Access.READ_ONLY),))
    script = "touch /mnt/seen/x 2>/dev/null || cat here.txt /mnt/seen/seen.txt; sleep 60"
    execution = await rig.start_raw(lease, ("sh", "-c", script))
    said = b""
    async for chunk in execution.output():
        said += chunk
        if len(said) >= len(b"sentread"):
            break
    assert said == b"sentread"
    (container,) = list_far(rig, execution.run_id)
    body = far(f"/containers/{container['Id']}/json")
    assert {mount["Type"] for mount in body["Mounts"]} == {"volume"}
    assert not body["HostConfig"].get("Binds")
    assert body["HostConfig"]["CapDrop"] == ["ALL"]
    await lease.release()


async def test_what_is_there_already_is_not_sent_again(tmp_path: Path, relay: Relay) -> None:
    """Of four megabytes the second run sends nothing, also under another name; of a changed file that file alone."""
    async with relayed(tmp_path, relay) as rig:
        (rig.project / "large").write_bytes(os.urandom(4 * MIB))
        (rig.project / "small").write_bytes(os.urandom(MIB // 2))

        async def count() -> int:
            before = relay.sent
            assert (await rig.run("true")).kind is ResultKind.OK
            return relay.sent - before

        assert await count() > 4 * MIB
        (rig.project / "large").rename(rig.project / "renamed")
        assert await count() < MIB // 4
        (rig.project / "small").write_bytes(os.urandom(MIB // 2))
        assert MIB // 2 <= await count() < MIB


async def test_what_changed_over_there_comes_back(rig: Rig) -> None:
    (rig.project / "kept.txt").write_text("kept")
    (rig.project / "gone.txt").write_text("gone")
    (rig.project / "moved.txt").write_text("moved")
    (rig.project / "turned").write_text("a file")
    (rig.project / "run.sh").write_text("#!/bin/sh\n")
    (rig.project / "old" / "deep").mkdir(parents=True)
    (rig.project / "old" / "deep" / "x").write_text("x")
    kept = (rig.project / "kept.txt").stat()
    script = (
        "rm -r gone.txt old; mv moved.txt new.txt; rm turned; mkdir -p turned/in; printf made >turned/in/side; "
        "chmod 755 run.sh; ln -s kept.txt link; printf 1 >'name with\nnewline'; : >empty; chmod 4755 empty; "
        "mkfifo pipe; truncate -s 4G sparse"
    )
    lease = await rig.lease()
    result = await (await rig.start_raw(lease, ("sh", "-c", script))).result()
    await lease.release()
    assert result.kind is ResultKind.OK, (result.evidence, result.output)
    there = {str(path.relative_to(rig.project)) for path in rig.project.rglob("*")}
    assert there == {
        "kept.txt", "new.txt", "turned", "turned/in", "turned/in/side", "run.sh", "link", "name with\nnewline", "empty",
    }  # fmt: skip
    assert (rig.project / "turned" / "in" / "side").read_text() == "made"
    assert (rig.project / "new.txt").read_text() == "moved"
    assert os.readlink(rig.project / "link") == "kept.txt"
    assert (rig.project / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (rig.project / "empty").stat().st_mode & 0o7000 == 0, "no set-id bit comes back"
    assert (rig.project / "kept.txt").stat().st_mtime_ns == kept.st_mtime_ns
    assert (rig.project / "kept.txt").stat().st_ino == kept.st_ino, "what did not change is not written"
    told = " ".join(result.alarms)
    assert "pipe" in told
    assert "sparse" in told


async def test_what_is_covered_never_leaves(rig: Rig) -> None:
    secret = secrets.token_hex(16)
    (rig.project / ".env").write_text(secret)
    script = "cat .env; rm -f .env; echo theirs >.env; cat .env"
    lease = await rig.lease(covered=(f"{PROJECT}/.env",))
    result = await (await rig.start_raw(lease, ("sh", "-c", script))).result()
    await lease.release()
    assert secret.encode() not in result.output
    assert (rig.project / ".env").read_text() == secret
    assert (await rig.run("cat", ".env")).output == secret.encode(), "positive control: not covered it is sent"


async def test_a_run_reads_nothing_that_another_one_was_sent(rig: Rig) -> None:
    """What is kept over there belongs to keepers: no command finds the store, and its keeper cannot be looked into."""
    (rig.project / "word").write_text(secrets.token_hex(16))
    await rig.run("true")
    rig.empty_project()
    script = "id -u; ls /gloveport/blobs; cat /proc/1/environ; ls /proc/1/fd; kill -9 1; echo $?"
    result = await (await rig.start_raw(await rig.lease(), ("sh", "-c", script))).result()
    said = result.output.decode()
    assert said.startswith("65534\n")
    assert said.count("Permission denied") == 3, said
    assert "not permitted" in said or said.rstrip().endswith("1")


async def test_programs_of_this_machine_stay_here(rig: Rig) -> None:
    lease = await rig.lease(mounts=(Mount("/opt", "/opt", Access.READ_ONLY),))
    assert lease.security_context["not_sent"] == ["/opt"]
    assert lease.security_context["host"] in ("root@127.0.0.1", "127.0.0.1")
    await lease.release()


async def test_what_cannot_be_sent_is_refused(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("x")
    refused = [
        {"mounts": (Mount(str(tmp_path / "one"), "/mnt/one", Access.READ_ONLY),)},
        {"mounts": (Mount(str(rig.runs_dir.parent), "/mnt/all", Access.READ_ONLY),)},
        {"egress": ("example.org:443",)},
    ]
    for changes in refused:
        with pytest.raises(SandboxError) as caught:
            await rig.lease(**changes)
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    assert Claim.EGRESS_LIST in {claim for claim, _words in rig.availability.does_not_hold}


# --- cuts


SCRIPT = "echo one; sleep 4; echo two; echo done >made.txt; exit 3"


async def test_a_cut_in_the_middle_is_found_again(ssh: Rig) -> None:
    """Every ssh of ours dies while the run goes on: nothing of its output is lost, its end and files are its own."""
    ssh.empty_project()
    lease = await ssh.lease()
    execution = await ssh.start_raw(lease, ("sh", "-c", SCRIPT))
    assert await first_words(execution) == b"one\n"
    remote_machine().sshd.cut()
    with anyio.fail_after(60):
        result = await execution.result()
    assert (result.kind, result.exit_code, result.output) == (ResultKind.FAILED, 3, b"one\ntwo\n"), result.evidence
    assert any("cut" in one for one in result.alarms), result
    assert (ssh.project / "made.txt").read_text() == "done\n"
    await lease.release()


async def test_output_of_the_time_without_a_way_is_not_lost(tmp_path: Path, relay: Relay) -> None:
    async with relayed(tmp_path, relay) as rig:
        lease = await rig.lease()
        script = "echo first; sleep 2; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; sleep 60"
        execution = await rig.start_raw(lease, ("sh", "-c", script))
        assert await first_words(execution) == b"first\n"
        relay.refuses = True
        relay.cut()
        await anyio.sleep(4)
        assert (await rig.backend.attach(execution.run_id)) is not None, "unknown, and still looked for"
        relay.refuses = False
        expected = b"first\n" + b"".join(b"line %d\n" % number for number in range(3000))
        had = b""
        with anyio.fail_after(60):
            async for chunk in execution.output():
                had += chunk
                if len(had) >= len(expected):
                    break
        assert had == expected
        await execution.stop()
        assert (await execution.result()).kind is ResultKind.KILLED
        await lease.release()


async def test_a_machine_that_stays_away_leaves_the_outcome_unknown(tmp_path: Path, relay: Relay) -> None:
    """Lost is told with why; over there the run ends by itself, and the next trial removes what is left of it."""
    marker = f"gp{secrets.token_hex(6)}"
    async with relayed(tmp_path, relay, away_s=SOON_S) as rig:
        lease = await rig.lease()
        execution = await rig.start_raw(lease, ("sh", "-c", f"echo one; echo x >made.txt; sleep 100; : {marker}"))
        assert await first_words(execution) == b"one\n"
        relay.refuses = True
        relay.cut()
        with anyio.fail_after(60):
            await wait_gone(marker)  # nobody was heard: it ended itself, before we gave up
        with anyio.fail_after(60):
            result = await execution.result()
        assert (result.kind, result.exit_code, result.output) == (ResultKind.LOST, None, b"one\n")
        assert "unknown" in result.evidence
        assert not (rig.project / "made.txt").exists(), "nothing is taken of a run whose end is not known"
        relay.refuses = False
        assert list_far(rig, execution.run_id)
        await lease.release()
        assert (await rig.backend.probe()).ok
        assert list_far(rig, execution.run_id) == []


async def test_a_run_whose_supervisor_is_killed_ends_itself(tmp_path: Path) -> None:
    marker = f"gp{secrets.token_hex(6)}"
    choice = replace(remote_machine().choose("ssh"), away_s=SOON_S)
    async with rig_with("remote-ssh", tmp_path, choice) as rig:
        lease = await rig.lease()
        execution = await rig.start_raw(lease, ("sh", "-c", f"echo one; sleep 100; : {marker}"))
        await first_words(execution)
        status = rundir.read_status(rig.runs_dir / rig.name / execution.run_id)
        assert status is not None
        tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGKILL)
        assert list_host_processes(marker), "it does not end with it"
        assert (await execution.result()).kind is ResultKind.LOST
        with anyio.fail_after(60):
            await wait_gone(marker)
        await lease.release()
        assert list_far(rig, execution.run_id) == []


async def test_a_next_daemon_finds_neither_supervisor_nor_end_and_clears_up_over_there(ssh: Rig) -> None:
    """The run is lost, never begun again; its container goes at the next trial, its folder with the reaping."""
    lease = await ssh.lease()
    execution = await ssh.start_raw(lease, ("sh", "-c", "echo one; sleep 100"))
    await first_words(execution)
    status = rundir.read_status(ssh.runs_dir / ssh.name / execution.run_id)
    assert status is not None
    tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGKILL)
    other = ssh.open()
    found = await other.attach(execution.run_id)
    assert found is not None
    assert (await found.result()).kind is ResultKind.LOST
    await other.close()
    assert list_far(ssh, execution.run_id), "nobody has looked over there yet"
    last = ssh.open()
    try:
        await last.reap()
        assert (await last.probe()).ok
        assert list_far(ssh, execution.run_id) == []
    finally:
        await last.close()
        await lease.release()


async def test_an_engine_that_is_killed_and_comes_back_has_the_run(ssh: Rig) -> None:
    """With containers that outlive their engine; nothing of the run is lost."""
    ssh.empty_project()
    engine = remote_machine().engine
    lease = await ssh.lease()
    execution = await ssh.start_raw(lease, ("sh", "-c", SCRIPT))
    assert await first_words(execution) == b"one\n"
    engine.kill()
    try:
        await anyio.sleep(1)
    finally:
        engine.begin_again()
    with anyio.fail_after(60):
        result = await execution.result()
    assert (result.kind, result.exit_code, result.output) == (ResultKind.FAILED, 3, b"one\ntwo\n"), result.evidence
    assert (ssh.project / "made.txt").read_text() == "done\n"
    await lease.release()


async def test_a_container_that_is_removed_over_there_is_lost(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start_raw(lease, ("sh", "-c", "echo one; sleep 100"))
    await first_words(execution)
    (container,) = list_far(rig, execution.run_id)
    EngineSocket(str(remote_machine().engine.socket)).call("DELETE", f"/containers/{container['Id']}?force=1")
    with anyio.fail_after(60):
        result = await execution.result()
    assert (result.kind, result.output) == (ResultKind.LOST, b"one\n")
    await lease.release()


async def test_nothing_of_a_run_is_left_over_there(rig: Rig) -> None:
    lease = await rig.lease()
    execution = await rig.start(lease, "write", "a", "b")
    await execution.result()
    plan = rundir.read_request(rig.runs_dir / rig.name / execution.run_id).engine
    assert plan is not None
    await lease.release()
    with anyio.fail_after(50):
        while list_far(rig, execution.run_id) or plan.name in json.dumps(far("/volumes")):
            await anyio.sleep(0.05)


async def test_an_engine_that_changes_what_comes_back_is_found_out(tmp_path: Path) -> None:
    """One content is another one on its way: nothing is taken, and the end is one that freezes a session."""
    honest, lie = secrets.token_hex(16).encode(), secrets.token_hex(16).encode()
    liar = Liar(tmp_path / "engine.sock", remote_machine().engine.socket, honest, lie)
    choice = replace(remote_machine().choose("ssh"), socket=str(liar.path))
    ends = []
    try:
        for lies in (False, True):
            liar.lies = lies
            async with rig_with("remote-ssh", tmp_path / f"rig-{lies}", choice) as rig:
                result = await rig.run("write", "made.txt", "".join(map(chr, honest)))
                made = rig.project / "made.txt"
                ends.append((result.kind, level_of(result), made.read_bytes() if made.exists() else None))
    finally:
        liar.close()
    assert ends == [(ResultKind.OK, None, honest), (ResultKind.LOST, Level.HOSTILE, None)]


async def test_limits_hold_over_there_without_us(rig: Rig) -> None:
    """The wall limit is the supervisor's; with it dead the keeper's own deadline would come (see its head)."""
    result = await rig.run_into_wall()
    assert (result.kind, result.output) == (ResultKind.TIMEOUT, b"one\n")


async def test_no_process_of_a_way_is_left() -> None:
    """Ways end with their owners: an ssh of ours is the child of a process that ends when its owner does."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], check=True, capture_output=True, text=True).stdout
    ours = [line for line in listed.splitlines() if "gloveport-remote" in line and "HostKeyAlias" in line]
    for line in ours:
        assert line.split()[1] != "1", line
