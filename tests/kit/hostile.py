"""A repository that tries to run a program on whoever looks at it.

Purpose: every way in which git starts a program that a repository chose, each with its own canary; and what a command
in a sandbox can leave for the user's own programs to run.
Invariant: a canary is a file outside of the repository whose name says which trap went off; each trap has a command
of the user's that sets it off.
Must never: do anything but make a file.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.kit.history.repository import NEUTRAL

TRACKED: Final = {"code.py": "value = 1\n", "notes.txt": "one\ntwo\nthree\n", "mod.py": "x = 1\n"}


@dataclass(frozen=True, slots=True)
class Hostile:
    """A repository at `root`; what runs leaves a file in `canaries`."""

    root: Path
    canaries: Path

    def program(self, name: str, then: str = "cat") -> str:
        """A program that leaves its mark and passes on what it is given, or does what `then` says."""
        path = self.canaries.parent / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n: > {self.canaries}/{name}\n{then}\n")
        path.chmod(0o755)
        return str(path)

    def rang(self) -> set[str]:
        """The traps that went off."""
        return set(os.listdir(self.canaries))

    def git(self, *arguments: str, at: str = ".", loudly: bool = False) -> None:
        """The user's own git."""
        name = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(
            ["git", *name, *arguments],
            cwd=self.root / at,
            env={**NEUTRAL, "HOME": str(self.canaries.parent), "GIT_SSH_VARIANT": "ssh"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=loudly,
            timeout=60,
        )

    def write(self, files: Mapping[str, str]) -> None:
        """Files of the repository."""
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def configure(self, key: str, value: str, at: str = ".") -> None:
        """A setting in the repository's own configuration."""
        self.git("config", key, value, at=at, loudly=True)

    def hook(self, name: str, at: str = ".git/hooks") -> None:
        """A hook of the repository."""
        path = self.root / at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.program(f"hook-{name}"), path)

    def touch(self) -> None:
        """A change of the user's, so that git looks at contents again."""
        (self.root / "notes.txt").write_text("one\n2\nthree\n")


Trap = tuple[Callable[[Hostile], None], Callable[[Hostile], None]]
"""How it is laid, and the command of the user's that sets it off."""


def _attribute(driver: str) -> Callable[[Hostile], None]:
    kind, _, word = driver.partition(".")

    def lay(repo: Hostile) -> None:
        repo.write({".gitattributes": f"*.txt {kind}=evil\n"})
        repo.configure(f"{kind}.evil.{word}", repo.program(driver))

    return lay


def _setting(key: str) -> Callable[[Hostile], None]:
    return lambda repo: repo.configure(key, repo.program(key))


def _command(*arguments: str, at: str = ".") -> Callable[[Hostile], None]:
    def run(repo: Hostile) -> None:
        repo.touch()
        repo.git(*arguments, at=at)

    return run


def _checkout(repo: Hostile) -> None:
    (repo.root / "notes.txt").unlink()
    repo.git("checkout", "--", "notes.txt")


def _info_attributes(repo: Hostile) -> None:
    repo.write({".git/info/attributes": "*.txt filter=evil\n"})
    repo.configure("filter.evil.clean", repo.program("info-attributes"))


def _hooks_path(repo: Hostile) -> None:
    repo.hook("pre-commit", at="tools/hooks")
    repo.configure("core.hooksPath", "tools/hooks")


def _included(repo: Hostile) -> None:
    repo.write({"tools/gitconfig": f'[core]\n\tfsmonitor = "{repo.program("include")}"\n'})
    repo.configure("include.path", "../tools/gitconfig")


def _gitfile(repo: Hostile) -> None:
    repo.git("init", "--quiet", "--separate-git-dir", str(repo.root / "store"), "nested", loudly=True)
    repo.write({"nested/inner.txt": "inner\n"})
    repo.configure("core.fsmonitor", repo.program("gitfile"), at="nested")


def _submodule(repo: Hostile) -> None:
    if (repo.root / "sub").exists():
        return
    repo.git("init", "--quiet", "sub", loudly=True)
    repo.write({"sub/inner.txt": "inner\n"})
    repo.git("add", "-A", at="sub", loudly=True)
    repo.git("commit", "--quiet", "-m", "inner", at="sub", loudly=True)
    repo.git("-c", "advice.addEmbeddedRepo=false", "add", "sub", loudly=True)
    repo.write({".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'})
    repo.configure("core.fsmonitor", repo.program("submodule"), at="sub")


def _submodule_update(repo: Hostile) -> None:
    _submodule(repo)
    repo.configure("submodule.sub.update", f"!{repo.program('submodule-update')}")
    repo.configure("submodule.sub.url", str(repo.root / "sub"))
    repo.git("commit", "--quiet", "--allow-empty", "-m", "more", at="sub", loudly=True)


def _embedded_bare(repo: Hostile) -> None:
    repo.git("init", "--quiet", "--bare", "vendor/store", loudly=True)
    repo.configure("alias.st", f"!{repo.program('bare')}", at="vendor/store")


def _remote(repo: Hostile) -> None:
    repo.configure("remote.origin.url", "ssh://nowhere.invalid/x")
    repo.configure("core.sshCommand", repo.program("core.sshCommand", "exit 1"))


TRAPS: Final[Mapping[str, Trap]] = MappingProxyType(
    {
        "filter.clean": (_attribute("filter.clean"), _command("add", "-A")),
        "filter.smudge": (_attribute("filter.smudge"), _checkout),
        "filter.process": (_attribute("filter.process"), _command("add", "-A")),
        "diff.textconv": (_attribute("diff.textconv"), _command("diff")),
        "diff.command": (_attribute("diff.command"), _command("diff")),
        "diff.external": (_setting("diff.external"), _command("diff")),
        "core.fsmonitor": (_setting("core.fsmonitor"), _command("status")),
        "core.sshCommand": (_remote, _command("fetch")),
        "core.editor": (_setting("core.editor"), _command("commit", "-a")),
        "alias": (lambda repo: repo.configure("alias.st", f"!{repo.program('alias')}"), _command("st")),
        "info-attributes": (_info_attributes, _command("add", "-A")),
        "include": (_included, _command("status")),
        "hook-post-index-change": (lambda repo: repo.hook("post-index-change"), _command("add", "-A")),
        "hook-pre-commit": (_hooks_path, _command("commit", "-a", "-m", "x")),
        "hook-post-checkout": (lambda repo: repo.hook("post-checkout"), _command("checkout", "-b", "other")),
        "hook-reference-transaction": (lambda repo: repo.hook("reference-transaction"), _command("tag", "x")),
        "gitfile": (_gitfile, _command("status", at="nested")),
        "submodule": (_submodule, _command("status")),
        "submodule-update": (_submodule_update, _command("submodule", "update", "--force")),
        "bare": (_embedded_bare, _command("st", at="vendor/store")),
    }
)


def make_hostile(folder: Path, traps: Sequence[str] = tuple(TRAPS)) -> Hostile:
    """A repository with one commit and the traps named, none of which has gone off."""
    repo = Hostile(folder / "root", folder / "canaries")
    repo.canaries.mkdir(parents=True)
    repo.root.mkdir()
    repo.git("init", "--quiet", loudly=True)
    repo.write(TRACKED)
    repo.git("add", "-A", loudly=True)
    repo.git("commit", "--quiet", "-m", "begin", loudly=True)
    for name in traps:
        TRAPS[name][0](repo)
    for canary in repo.canaries.iterdir():  # laying one may set off another
        canary.unlink()
    return repo


POISON: Final = """
import os, py_compile, pathlib, sys
mark = "open({canaries!r} + '/%s', 'w').close()"
real = pathlib.Path('mod.py').read_text()
info = os.stat('mod.py')
pathlib.Path('mod.py').write_text((mark % 'pyc') + chr(10))
os.utime('mod.py', ns=(info.st_atime_ns, info.st_mtime_ns))
py_compile.compile('mod.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
pathlib.Path('mod.py').write_text(real)
for place, text in (
    ('.venv/lib/python3/site-packages/evil.pth', 'import os; ' + mark % 'pth'),
    ('node_modules/.bin/lint', '#!/bin/sh' + chr(10) + ': > {canaries}/bin' + chr(10)),
):
    path = pathlib.Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    except OSError as error:
        print('not written', place, error)
print('poisoned')
"""
"""What a command in a sandbox leaves for others to run."""


def set_off_poison(root: Path) -> None:
    """The user's own programs, where the poison lies."""
    environment = {"PATH": NEUTRAL["PATH"]}
    site = root / ".venv/lib/python3/site-packages"
    for argv in (
        [sys.executable, "-c", "import mod"],
        [sys.executable, "-c", f"import site; site.addsitedir({str(site)!r})"],
        ["sh", "-c", "node_modules/.bin/lint"],
    ):
        subprocess.run(argv, cwd=root, env=environment, capture_output=True, check=False, timeout=60)
