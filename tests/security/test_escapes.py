"""Attempts to get out of each rung: none that it promises to stop succeeds, and each succeeds without the rung.

Purpose: the promise of a rung, attempt by attempt; the attempts are data in `tests/security/escapes`.
"""

import asyncio
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tests.kit.engines import shared_engine
from tests.kit.remotes import remote_machine
from tests.kit.require import require
from tests.kit.sandboxes import ENGINE_RUNGS, REMOTE_RUNGS, on_rungs
from tests.security.escapes.catalogue import PRELUDE, Attempt, load
from tests.security.escapes.driver import CARRIED, REMOTE, group_up, is_made
from tests.security.escapes.field import PROJECT, Field, Outcome, profile_of, try_bare, try_on
from tests.security.escapes.ordinary import ORDINARY_UID, PYTHON, readable_copies
from tests.security.escapes.table import PAGE, render
from tests.security.escapes.together import goes_together, try_together

from gloveport.protocol.jail.requests import LinkPlan, RunRequest
from gloveport.sandbox.backends.bubblewrap import find_binaries
from gloveport.sandbox.backends.process import ProcessSandbox
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Claim, Command
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.runner.rundir import read_request

ATTEMPTS = load()
RUNGS = ("process", "bubblewrap", "bubblewrap as another user", "docker", "gvisor", *REMOTE_RUNGS)
"""A further rung is one more name here, and its arguments below."""
DRIVER = "tests.security.escapes.driver"
DRIVE_S = 600
NO_LINK = LinkPlan("", "", 0, "", "", "", "", "", "")
pytestmark = [pytest.mark.timeout(DRIVE_S + 60)]


def drive(rung: str) -> dict[str, Any]:
    """All attempts on one rung, made by a program of its own."""
    require(platform.machine() == "x86_64", "the attempts name the system calls of x86_64 by number")
    if rung == "bubblewrap as another user":
        with readable_copies() as folder:
            environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "lib"), "HOME": "/nonexistent"}
            environment["GLOVEPORT_THOROUGH"] = os.environ.get("GLOVEPORT_THOROUGH", "")
            argv = [PYTHON, "-S", "-B", "-m", DRIVER, "bubblewrap", str(folder / "field")]
            return run_driver(argv, environment, user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if rung in ENGINE_RUNGS:
        environment["DOCKER_HOST"] = shared_engine().choice.host
    if rung in REMOTE_RUNGS:
        environment[REMOTE] = json.dumps(asdict(remote_machine().choose(rung.removeprefix("remote-"))))
    with field_folder() as folder:
        return run_driver([sys.executable, "-B", "-m", DRIVER, rung, str(folder)], environment)


def run_driver(argv: list[str], environment: dict[str, str], **options: Any) -> dict[str, Any]:
    """What the driver printed."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=DRIVE_S, check=False, env=environment, cwd="/", **options
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    require(told["ok"], f"this rung does not work here: {told['reason']}")
    return told


@contextmanager
def field_folder() -> Iterator[Path]:
    """A short folder that is gone afterwards."""
    folder = Path(mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def driven() -> dict[str, dict[str, Any] | BaseException]:
    """Outcomes of each rung that was asked for, filled as they are wanted."""
    return {}


def outcomes(driven: dict[str, dict[str, Any] | BaseException], rung: str) -> dict[str, Any]:
    """Drive a rung once; a skip or failure is one for each of its attempts."""
    if rung not in driven:
        try:
            driven[rung] = drive(rung)
        except BaseException as error:
            driven[rung] = error
            raise
    found = driven[rung]
    if isinstance(found, BaseException):
        raise found
    return found


def test_there_are_enough_attempts_and_each_says_what_it_tries() -> None:
    """At least sixty; with a claim, a judge and a control."""
    assert len(ATTEMPTS) >= 60
    assert all(one.tries.endswith(".") for one in ATTEMPTS)


def test_the_table_is_fresh() -> None:
    """docs/escapes.md is what the attempts and the promises give."""
    assert PAGE.read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.id)
@pytest.mark.parametrize("rung", on_rungs(*RUNGS))
def test_no_attempt_gets_out(rung: str, attempt: Attempt, driven: dict[str, dict[str, Any] | BaseException]) -> None:
    """Where the rung promises it; where it does not, it is not even made here: see the controls."""
    told = outcomes(driven, rung)
    assert (attempt.id in told["outcomes"]) == (attempt.claim.value in told["holds"] and is_made(rung, attempt))
    if attempt.id in told["outcomes"]:
        outcome = Outcome(**told["outcomes"][attempt.id])
        assert not outcome.escaped, outcome


def test_what_is_not_made_by_certificates_is_about_the_container_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By ssh and by every other rung all are made; by certificates those that share a run, and what the way carries."""
    monkeypatch.setenv("GLOVEPORT_THOROUGH", "")
    left = {rung: [one for one in ATTEMPTS if not is_made(rung, one)] for rung in RUNGS}
    assert {rung for rung, some in left.items() if some} == {"remote-tls"}
    assert not any(goes_together(one) or one.id in CARRIED for one in left["remote-tls"])
    assert {one.id for one in ATTEMPTS} >= CARRIED
    monkeypatch.setenv("GLOVEPORT_THOROUGH", "1")
    assert all(is_made("remote-tls", one) for one in ATTEMPTS)
    for rung in RUNGS:
        grouped = [one for group in group_up(rung, list(ATTEMPTS)) for one in group]
        assert sorted(one.id for one in grouped) == sorted(one.id for one in ATTEMPTS)


@pytest.mark.engine
async def test_the_same_container_is_asked_for_by_either_way(tmp_path: Path) -> None:
    """So that what holds inside by one way holds by the other: names and the way there are all that differs."""
    by_ssh, by_tls = [await requests_of(rung, tmp_path / rung) for rung in REMOTE_RUNGS]
    assert by_ssh == by_tls
    assert by_ssh[0] != by_ssh[1]


async def requests_of(rung: str, folder: Path) -> list[RunRequest]:
    """What the supervisors of two runs are told, of a build's and of a small tool's, without names."""
    field = Field(folder, secret="same", word="same")
    remotes = {rung: remote_machine().choose(rung.removeprefix("remote-"))}
    backend = open_backend(rung, field.folder / "runs", hidden=(field.data,), remotes=remotes)
    found = []
    try:
        require((await backend.probe()).ok, f"{rung} does not work here")
        field.reset()
        for kind in ("build", "small"):
            lease = await backend.prepare(replace(profile_of(ATTEMPTS[0], field), tool_kind=kind), kind)
            try:
                execution = await lease.start(Command((find_interpreter().path, "-V"), kind))
                assert (await execution.result()).exit_code == 0
                found.append(without_names(read_request(field.folder / "runs" / rung / kind)))
            finally:
                await lease.release()
    finally:
        await backend.close()
        field.close()
    return found


def without_names(asked: RunRequest) -> RunRequest:
    """What decides how a run is held."""
    assert asked.engine is not None
    assert asked.remote is not None
    body = {**json.loads(asked.engine.create), "Labels": {}}
    engine = replace(asked.engine, address="", name="", create=json.dumps(body))
    parcels = tuple(replace(one, source="") for one in asked.remote.parcels)
    remote = replace(asked.remote, link=NO_LINK, parcels=parcels, store="", owner="", memory="")
    return replace(asked, run_id="", engine=engine, remote=remote, written=())


async def control(attempt: Attempt, field: Field) -> Outcome:
    """The attempt where it is not stopped, by what the row names."""
    if attempt.control in ("bare", "naive", "parsed"):
        return await try_bare(attempt, field)
    if attempt.control == "bare_mount":
        return mount_naively(attempt, field)
    rung = "process" if attempt.control == "process" else "bubblewrap"
    backend = open_backend(rung, field.folder / "runs", hidden=(field.data,))
    if rung == "process":  # without the one wall that it has
        backend = ProcessSandbox(field.folder / "runs", landlock_abi_max=0)
    try:
        require((await backend.probe()).ok, f"{rung} does not work here")
        lifted, covers = attempt.control == "lifted", attempt.control != "uncovered"
        return await try_on(backend, attempt, field, lifted=lifted, covers=covers)
    finally:
        await backend.close()


def mount_naively(attempt: Attempt, field: Field) -> Outcome:
    """Bubblewrap with a target below a folder in which a link was planted: it makes the target where the link leads."""
    field.reset()
    (field.project / "sub").symlink_to(f"/oldroot{field.folder}/outside")
    before = field.snapshot()
    argv = [find_binaries()[0].path, "--ro-bind", "/", "/", "--bind", str(field.project), "/mnt"]
    argv += ["--ro-bind", "/usr", "/mnt/sub/made", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    return Outcome(field.snapshot() != before, words=done.stderr)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.id)
def test_each_attempt_succeeds_where_nothing_stops_it(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the rung that promises nothing, on the machine itself, or with one defence away: else it proves nothing."""
    require(platform.machine() == "x86_64", "the attempts name the system calls of x86_64 by number")
    require(not attempt.root or os.geteuid() == 0, "this attempt succeeds for root alone")
    with field_folder() as folder:
        field = Field(folder)
        monkeypatch.setenv("GLOVEPORT_CANARY", field.secret)
        try:
            outcome = asyncio.run(control(attempt, field))
        finally:
            field.close()
    if outcome.absent:
        pytest.skip(outcome.absent)  # the kernel or the machine itself has no such thing: not a tool that is missing
    assert outcome.escaped, outcome


JAILED = "server/gloveport/server/hands/inside"
"""Programs of ours that run in a jail of their own, where a bomb meets the jail's limits."""


def test_no_xml_is_parsed_outside_a_jail() -> None:
    """An artifact or a report is bytes to the daemon: its entities grow for nobody."""
    home = PAGE.parents[1]
    sources = [path for name in ("protocol", "sandbox", "server") for path in (home / name).rglob("*.py")]
    assert len(sources) > 200
    words = re.compile(r"^\s*(?:from|import) (?:xml|lxml|defusedxml)\b", re.MULTILINE)
    found = [str(path.relative_to(home)) for path in sources if words.search(path.read_text(encoding="utf-8"))]
    assert [path for path in found if not path.startswith(JAILED)] == []


def test_an_attempt_that_gets_out_is_reported() -> None:
    """The suite bites: an attempt that simply says the word is an escape on every rung."""
    planted = Attempt("planted", "Say the word.", ATTEMPTS[0].claim, "said", "escaped()", "files")
    assert "escaped" in PRELUDE
    assert PROJECT.startswith("/")
    with field_folder() as folder:
        field = Field(folder)
        backend = open_backend("bubblewrap", folder / "runs", hidden=(field.data,))

        async def run() -> Outcome:
            try:
                require((await backend.probe()).ok, "bubblewrap does not work here")
                return await try_on(backend, planted, field)
            finally:
                await backend.close()

        try:
            assert asyncio.run(run()).escaped
        finally:
            field.close()


async def make_together(rung: str, field: Field, *attempts: Attempt) -> dict[str, Outcome]:
    """Outcomes of attempts that are made in one run."""
    backend = open_backend(rung, field.folder / "runs", hidden=(field.data,))
    try:
        require((await backend.probe()).ok, f"{rung} does not work here")
        return await try_together(backend, attempts, field)
    finally:
        await backend.close()


def test_one_of_many_that_gets_out_is_reported() -> None:
    """By its own word: then the others are made again. Seen outside without a name: then all of them are."""
    others = [one for one in ATTEMPTS if goes_together(one) and one.claim is Claim.NO_NEW_NAMESPACES]
    speaker = Attempt("speaker", "Say the word.", Claim.SYSCALL_FILTER, "said", "escaped()", "files")
    writer = replace(speaker, id="writer", judge="outside_changed", program="open(ctx['outside'] + '/x', 'w')")
    with field_folder() as folder:
        field = Field(folder)
        try:
            held = asyncio.run(make_together("bubblewrap", field, *others, writer))
            assert held.keys() == {"writer", *(one.id for one in others)}
            assert not any(outcome.escaped for outcome in held.values())
            spoken = asyncio.run(make_together("bubblewrap", field, *others, speaker))
            assert list(spoken) == ["speaker"]
            assert spoken["speaker"].escaped
            assert asyncio.run(make_together("process", field, *others, writer)) == {}
        finally:
            field.close()
