"""The setup script, as far as it can be shown without a package index."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A bare copy of what the script reads."""
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def load(checkout: Path) -> ModuleType:
    """Import the script of the copy."""
    loader = importlib.machinery.SourceFileLoader("bootstrap_under_test", str(checkout / "scripts" / "bootstrap"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def make_stamped(checkout: Path, module: ModuleType, profile: str) -> Path:
    """A folder that looks like an environment made by the script."""
    venv = checkout / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    python = sys.executable
    stamps = {"python": os.path.realpath(python), profile: module.compute_stamp(profile, python)}
    (venv / "stamp.json").write_text(json.dumps(stamps))
    return venv


def test_wider_profile_serves_the_narrower(checkout: Path) -> None:
    """With dev installed, demo has nothing to do; the other way round it has."""
    module = load(checkout)
    venv = make_stamped(checkout, module, "models")
    assert module.is_current(venv, "demo", sys.executable)
    assert module.is_current(venv, "models", sys.executable)
    assert not module.is_current(venv, "dev", sys.executable)


def test_changed_lock_or_python_is_not_current(checkout: Path) -> None:
    """The stamp covers the lock, the packaging settings and the interpreter, but not a linter's settings."""
    module = load(checkout)
    venv = make_stamped(checkout, module, "demo")
    project = checkout / "pyproject.toml"
    project.write_text(project.read_text() + "\n[tool.linter]\nx = 1\n")
    assert module.is_current(venv, "demo", sys.executable)
    assert not module.is_current(venv, "demo", "/usr/bin/another-python")
    lock = checkout / "requirements" / "runtime.lock"
    lock.write_text(lock.read_text() + "\n")
    assert not module.is_current(venv, "demo", sys.executable)


def test_environment_of_another_maker_is_left_alone(checkout: Path) -> None:
    """A folder that the script did not make is refused by name and kept."""
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "mine.txt").write_text("mine")
    done = run(checkout, os.environ["PATH"])
    assert done.returncode == 1
    assert "was not made by this command" in done.stderr
    assert (checkout / ".venv" / "mine.txt").read_text() == "mine"


def test_no_installer_names_the_fix(checkout: Path) -> None:
    """An interpreter with neither pip nor ensurepip gets the exact commands to type, and no stamp."""
    module = load(checkout)
    steps = module.Steps(checkout / "log")
    steps.log.write_bytes(b"")
    false = shutil.which("false")
    assert false is not None
    with pytest.raises(module.SetupError, match="apt-get install python3-venv"):
        install_with_only(module, steps, checkout, false)


def install_with_only(module: ModuleType, steps: object, checkout: Path, python: str) -> None:
    """Run the installation with an interpreter that can do nothing and an empty PATH."""
    before = os.environ["PATH"]
    os.environ["PATH"] = str(checkout / "empty")
    try:
        module.install(steps, checkout / ".venv", "demo", python)
    finally:
        os.environ["PATH"] = before


APT = """#!/bin/sh
# Knows its package only after an update into the lists it is told, as with empty system lists.
echo "$@" >>"$HOME/asked"
lists=; for word in "$@"; do case $word in Dir::State::Lists=*) lists=${word#*=} ;; esac; done
case "$*" in
    *update) touch "$lists/known" ;;
    *download*) [ -n "$lists" ] && [ -e "$lists/known" ] && touch python3-pip-whl_1_all.deb ;;
esac
"""
UNPACK = """#!/bin/sh
mkdir -p "$3/usr/share/python-wheels" && touch "$3/usr/share/python-wheels/pip-1-py3-none-any.whl"
"""


def test_apt_fetches_pip_for_an_ordinary_user(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pip and ensurepip, Debian's wheel is fetched into the environment, with apt's lists kept aside."""
    tools = checkout / "tools"
    tools.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", UNPACK)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(checkout))
    module = load(checkout)
    steps = module.Steps(checkout / "log")
    venv = checkout / ".venv"
    wheel = module.fetch_debian_pip(steps, venv)
    assert wheel is not None
    assert wheel.startswith(str(venv / "apt" / "files"))
    asked = (checkout / "asked").read_text().splitlines()
    assert [line.split()[-2:] for line in asked if "download" in line] == [["download", "python3-pip-whl"]] * 2
    assert all("install" not in line for line in asked)


def test_no_apt_is_no_error(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the way simply does not exist."""
    monkeypatch.setenv("PATH", str(checkout / "empty"))
    module = load(checkout)
    assert module.fetch_debian_pip(module.Steps(checkout / "log"), checkout / ".venv") is None


def test_steering_variables_do_not_reach_the_installer(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP_TARGET and the like would put the packages elsewhere."""
    monkeypatch.setenv("PIP_TARGET", str(checkout / "elsewhere"))
    monkeypatch.setenv("PYTHONPATH", "x")
    module = load(checkout)
    steps = module.Steps(checkout / "log")
    assert not {"PIP_TARGET", "PYTHONPATH"} & set(steps.env)


def test_locks_agree_on_every_version() -> None:
    """The narrower files hold the versions of the wider one, each with a hash."""
    pins = {path.stem: read_pins(path) for path in (ROOT / "requirements").glob("*.lock")}
    for name in ("runtime", "models"):
        assert pins[name].items() <= pins["dev"].items()
    shared = pins["build"].keys() & pins["dev"].keys()
    assert {k: pins["build"][k] for k in shared} == {k: pins["dev"][k] for k in shared}


def read_pins(path: Path) -> dict[str, str]:
    """Package to version; fails on a pin without a hash."""
    pins = {}
    for block in path.read_text().replace("\\\n", " ").splitlines():
        name, _, rest = block.partition("==")
        assert "--hash=sha256:" in rest, block
        pins[name] = rest.split()[0]
    return pins


def run(checkout: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the copy."""
    return subprocess.run(
        [sys.executable, str(checkout / "scripts" / "bootstrap"), "demo"],
        env={"PATH": path}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
