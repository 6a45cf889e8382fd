"""What the daemon opens on demand: rungs, models, workspaces.

Purpose: give the engine each of them by name, opened once and closed with the daemon.
Invariant: a rung is tried before it is described; a key is handed to its provider and to nothing else.
Must never: choose in place of the user.
"""

import asyncio
import logging
import os
import sys
import sysconfig
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.wire.place import ClaimInfo, ProbeInfo, SandboxDoctorResult, SandboxInfo
from gloveport.sandbox.backends.names import NAMES, used_rungs
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Availability, Sandbox
from gloveport.sandbox.profile import is_below
from gloveport.server.cli.demo_repo import SCRIPT
from gloveport.server.cli.seen import FOLDER as SHOWN_FOLDER
from gloveport.server.commands.house import Rungs
from gloveport.server.engine.way_out import FOLDER as WAYS_FOLDER
from gloveport.server.engine.way_out import erase_lines
from gloveport.server.models.contract import Provider
from gloveport.server.models.failures import INSTALL_HINT
from gloveport.server.models.registry import ModelSettings, is_installed, provider_from_settings
from gloveport.server.policy import rules as builtin_rules
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import RuleSet, ruleset_from_texts
from gloveport.server.policy.rung import MINIMUM_STRENGTH
from gloveport.server.secrets.value import Secret
from gloveport.server.settings import ModelChoice, Settings
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.fit import refuse_root
from gloveport.server.workspace.removing import remove_tree

RULES_FILE: Final = "rules.toml"
BUILTIN_RULES: Final = "builtin.toml"
MANAGED_RULES: Final = Path("/etc/gloveport") / RULES_FILE
"""Rules of whoever owns the machine; the user's own can only add to what they ask for and refuse."""
CONTENTS_DIR: Final = "contents"
OWED: Final = "owed"
UNRECORDED: Final = "unrecorded"
"""Stands in the folder of a session until the session is in the journal."""
FAULTS_WAIT_S: Final = 3.0
"""How long who asks what does not work waits for trials; they go on, and the next who asks is told."""
FAULT_LASTS_S: Final = 60.0
_log = logging.getLogger("gloveport")


def readable_roots() -> tuple[str, ...]:
    """Folders of this interpreter, which a jail needs to run the tests of a workspace without one of its own.

    What lies in /usr is in every jail anyway, and no jail lets it be replaced.
    """
    paths = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}
    paths |= {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    roots = sorted(path for path in paths if path != "/" and not is_below(path, "/usr"))
    return tuple(root for root in roots if not any(root != other and is_below(root, other) for other in roots))


def load_rules(settings_home: Path, managed: Path = MANAGED_RULES) -> RuleSet:
    """The built-in rules, those of the machine's owner, and the user's own (`rules.toml` beside the settings).

    Raises PolicyError (RULES_INVALID), also for managed rules that somebody but root could have written.
    """
    builtin = Path(builtin_rules.__path__[0], BUILTIN_RULES).read_text("utf-8")
    texts = {Source.builtin: builtin}
    if os.path.lexists(managed):
        texts[Source.managed] = _read_managed(managed)
    own = settings_home / RULES_FILE
    if own.is_file():
        texts[Source.user] = own.read_text("utf-8")
    return ruleset_from_texts(texts)


def _read_managed(path: Path) -> str:
    state, folder = path.stat(), path.parent.stat()
    if any(one.st_uid != 0 or one.st_mode & 0o022 for one in (state, folder)):
        raise RulesInvalidError(Source.managed, "-", f"{path} has to belong to root, and nobody else may write there")
    return path.read_text("utf-8")


class Ladder:
    """The rungs of this machine."""

    def __init__(
        self, data_dir: Path, runs_dir: Path, hidden: tuple[Path, ...], settings: Callable[[], Settings]
    ) -> None:
        self._exposed = (data_dir / "sessions", data_dir / WAYS_FOLDER)
        self._runs_dir, self._hidden, self._settings = runs_dir, hidden, settings
        self._backends: dict[str, Sandbox] = {}
        self._found: dict[str, Availability] = {}
        self._trying = anyio.Lock()
        self._trials: dict[str, tuple[asyncio.Task[str], float]] = {}
        """Who looks whether a rung works, and from when on it is looked again where it does not."""

    def backend(self, name: str) -> Sandbox:
        """The rung of this name. Raises SandboxError."""
        if name not in self._backends:
            self._backends[name] = self._open(name)
        return self._backends[name]

    def _open(self, name: str) -> Sandbox:
        chosen = self._settings()
        return open_backend(
            name,
            self._runs_dir,
            hidden=self._hidden,
            exposed=self._exposed,
            engine=chosen.engine,
            remotes=chosen.remotes,
        )

    async def availability(self, name: str) -> Availability:
        """What a real trial found; tried once, and again as long as it fails."""
        async with self._trying:
            found = self._found.get(name)
            if found is None or not found.ok:
                found = self._found[name] = await self.backend(name).probe()
            return found

    async def describe(self, name: str) -> SandboxInfo:
        """A rung in the words of the wire."""
        backend, found = self.backend(name), await self.availability(name)
        return SandboxInfo(
            name=name,
            available=found.ok,
            reason=found.reason,
            fix=found.fix,
            strength=int(backend.strength),
            statement=backend.statement,
            holds=tuple(sorted(claim.value for claim in found.holds)),
            does_not_hold=tuple(ClaimInfo(claim=claim.value, words=words) for claim, words in found.does_not_hold),
            trust_levels=tuple(
                level.value for level, needed in MINIMUM_STRENGTH.items() if int(backend.strength) >= needed
            ),
        )

    async def faults(self, names: Collection[str]) -> Mapping[str, str]:
        """Of these rungs those that do not work, with why and what to do; one whose trial takes long is left out."""
        now = time.monotonic()
        for name in names:
            task, until = self._trials.get(name, (None, 0.0))
            if task is None or (task.done() and task.result() and now >= until):
                self._trials[name] = asyncio.create_task(self._find_fault(name)), now + FAULT_LASTS_S
        tasks = {name: self._trials[name][0] for name in names}
        await asyncio.wait(tasks.values(), timeout=FAULTS_WAIT_S)
        return {name: task.result() for name, task in tasks.items() if task.done() and task.result()}

    async def _find_fault(self, name: str) -> str:
        """Why a rung does not work and what to do; empty where it works."""
        try:
            found = await self.availability(name)
        except GloveportError as error:
            return f"{error.message} {error.hint}".strip()
        return "" if found.ok else f"{found.reason} {found.fix}".strip()

    async def find_image(self, name: str, reference: str) -> str:
        """The id of an image in a rung that works and has it; else empty."""
        backend = self.backend(name)
        return (
            await backend.find_image(reference) if backend.takes_images and (await self.availability(name)).ok else ""
        )

    async def doctor(self, name: str) -> SandboxDoctorResult:
        """Probe a rung's claims from outside."""
        from gloveport.sandbox.doctor.examine import examine

        findings = await examine(self.backend(name), self._hidden, partial(self._open, name))
        return SandboxDoctorResult(
            sandbox=name,
            probes=tuple(
                ProbeInfo(name=one.name, verdict=one.verdict.value, evidence=one.evidence, fix=one.fix)
                for one in findings
            ),
        )

    def rungs(self) -> Rungs:
        """What commands may ask."""
        return Rungs(NAMES, self.describe, self.doctor, self.find_image, self.faults)

    async def reap(self) -> None:
        """End every run of an earlier daemon that no session follows."""
        for name in used_rungs(self._runs_dir):  # the others cost every start their loading, and left nothing
            await self.backend(name).reap()

    async def sweep(self, keep: frozenset[str]) -> None:
        """Remove what ended runs left, but what is `keep`: runs that a session still asks about."""
        for name in used_rungs(self._runs_dir):
            await self.backend(name).sweep(keep)

    async def close(self) -> None:
        """Let go; runs go on under their supervisors."""
        for trial, _until in self._trials.values():
            trial.cancel()
        await asyncio.gather(*(trial for trial, _until in self._trials.values()), return_exceptions=True)
        for backend in self._backends.values():
            await backend.close()


class ModelShelf:
    """The providers of the user's models, each made when it is first asked for."""

    def __init__(self, settings: Callable[[], Settings], now_us: Callable[[], int]) -> None:
        self._settings, self._now_us = settings, now_us
        self._providers: dict[tuple[str, str], tuple[ModelChoice, Provider]] = {}
        self._replaced: list[Provider] = []

    def lane(self, name: str, model: str) -> str | None:
        """The provider and its address, with a number for each further key; a script is asked nothing outside."""
        settings = self._settings()
        choice = settings.find(name, model)
        if choice.provider == "scripted":
            return None
        keys: list[Secret | None] = []
        for other in settings.models:
            if (other.provider, other.base_url) == (choice.provider, choice.base_url) and other.key not in keys:
                keys.append(other.key)
        host = f" at {urlsplit(choice.base_url).netloc}" if choice.base_url else ""
        number = keys.index(choice.key)
        return f"{choice.provider}{host}" + (f", key {number + 1}" if number else "")

    def provider(self, name: str, model: str) -> Provider:
        """The provider of a model. Raises GloveportError (MODEL_UNKNOWN, MODEL_AUTH)."""
        choice = self._settings().find(name, model)
        known = self._providers.get((name, model))
        if known is not None and known[0] == choice:
            return known[1]
        wanted = ModelSettings(
            provider=choice.provider,
            model=choice.model,
            base_url=choice.base_url,
            api_key=choice.key,
            script_path=choice.script or (SCRIPT if choice.provider == "scripted" else None),
        )
        provider = provider_from_settings(wanted, self._now_us)
        if known is not None:
            self._replaced.append(known[1])  # requests may still run on it
        self._providers[name, model] = choice, provider
        return provider

    def label(self, name: str, model: str) -> str:
        """Who answers, in honest words; why it cannot and what would mend it, when it cannot."""
        try:
            choice, label = self._settings().find(name, model), self.provider(name, model).label
        except GloveportError as error:
            return f"{name}/{model} (not usable: {error.message}. {error.hint})"
        if choice.key_missing is not None:
            words = f"the variable {choice.key_missing} is not set. Set it, then: gloveport daemon stop"
            return f"{label} (not usable: {words})"
        if not is_installed(choice.provider):
            return f"{label} (not usable: its program library is not installed. {INSTALL_HINT})"
        return label

    async def close(self) -> None:
        """Give connections back."""
        for provider in (*self._replaced, *(provider for _, provider in self._providers.values())):
            await provider.close()


class WorkspaceShelf:
    """The worktrees of all sessions, below one folder, and the store that their snapshots share, beside it."""

    def __init__(self, folder: Path, exclude: Iterable[Path], boot_id: str = "") -> None:
        self._folder, self._exclude, self._boot_id = folder, tuple(exclude), boot_id
        self._opened: Contents | None = None
        self._opening = anyio.Lock()
        self.left: dict[str, tuple[str, ...]] = {}
        """What could not be removed of sessions that are gone, as `path: reason`, by session."""

    async def _contents(self) -> Contents:
        """The shared store, opened when the first session needs it."""
        async with self._opening:
            if self._opened is None:
                open_contents = partial(Contents, self._folder.parent / CONTENTS_DIR, self._folder)
                self._opened = await anyio.to_thread.run_sync(open_contents)
            return self._opened

    async def close(self) -> None:
        """Give the store's handles back."""
        if self._opened is not None:
            self._opened.close()

    def check_fit(self, root: Path) -> None:
        """Raise PROTECTED_PATH for a folder that is no project."""
        refuse_root(root, self._exclude)

    async def create(self, root: str, session_id: str) -> SessionWorkspace:
        """Take the snapshot of a new session. Raises PROTECTED_PATH for a folder that is no project."""
        self.check_fit(Path(root))
        target = self._folder / session_id
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        (target / UNRECORDED).touch(mode=0o600)
        try:
            contents = await self._contents()
            return await SessionWorkspace.create(
                Path(root), target, exclude=self._exclude, boot_id=self._boot_id, contents=contents
            )
        except BaseException:
            with suppress(OSError):
                (target / UNRECORDED).unlink()
                target.rmdir()
            if target.is_dir():  # something stays: the next start tries again
                with suppress(OSError):
                    (target / UNRECORDED).touch(mode=0o600)
            raise

    async def keep(self, session_id: str) -> None:
        """The session's first facts are on disk: its folder stays."""
        with suppress(FileNotFoundError):
            (self._folder / session_id / UNRECORDED).unlink()

    async def sweep(self, is_recorded: Callable[[str], Awaitable[bool]]) -> None:
        """Remove the folders of sessions whose beginning was broken off before it was recorded."""
        for mark in sorted(self._folder.glob(f"*/{UNRECORDED}")):
            if await is_recorded(mark.parent.name):
                mark.unlink(missing_ok=True)
            else:
                await anyio.to_thread.run_sync(partial(self._remove_folder, mark.parent))
        if self._owed.exists():
            await self._give_back()

    @property
    def _owed(self) -> Path:
        """Is there from before a session's folder is removed until what it alone held was given back."""
        return self._folder.parent / CONTENTS_DIR / OWED

    def _remove_folder(self, folder: Path) -> None:
        if self._owed.parent.is_dir():
            self._owed.touch(mode=0o600)
        was_unrecorded = (folder / UNRECORDED).exists()
        left = remove_tree(folder)
        self.left.pop(folder.name, None)
        if left:
            self.left[folder.name] = left
            _log.warning("the folder of a session that is gone cannot be removed: %s", "; ".join(left))
        if left and was_unrecorded:
            with suppress(OSError):
                (folder / UNRECORDED).touch(mode=0o600)  # the next start tries again

    async def _give_back(self) -> None:
        contents = await self._contents()
        if await anyio.to_thread.run_sync(contents.collect) is not None:
            self._owed.unlink(missing_ok=True)

    async def there(self) -> tuple[str, ...]:
        """Sessions that have a worktree here."""

        def look() -> tuple[str, ...]:
            return tuple(sorted(os.listdir(self._folder))) if self._folder.is_dir() else ()

        return await anyio.to_thread.run_sync(look)

    async def sizes(self) -> dict[str, int]:
        """What the folder of each session takes on the disk, in bytes; what all share is not counted."""
        names = await self.there()
        return {name: await anyio.to_thread.run_sync(_disk_bytes, self._folder / name) for name in names}

    async def remove(self, session_id: str) -> None:
        """Remove a session's worktree and what it alone held; what the disk keeps is removed at a later start."""
        await anyio.to_thread.run_sync(partial(self._remove_folder, self._folder / session_id))
        if self._owed.exists():
            with suppress(GloveportError):  # the mark stays, and the next start does it
                await self._give_back()
        note = self._folder.parent / SHOWN_FOLDER / f"{session_id}.json"
        await anyio.to_thread.run_sync(partial(note.unlink, missing_ok=True))
        with suppress(OSError):  # a disk that refuses keeps the lines of what was reached, and nothing else
            erase_lines(self._folder.parent, session_id)

    async def open(self, session_id: str) -> SessionWorkspace:
        """The worktree of a known session."""
        contents = await self._contents()
        return await SessionWorkspace.open(self._folder / session_id, boot_id=self._boot_id, contents=contents)


def _disk_bytes(folder: Path) -> int:
    """What lies below a folder takes; what vanishes meanwhile, or cannot be looked at, counts as nothing."""
    total = 0
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total
