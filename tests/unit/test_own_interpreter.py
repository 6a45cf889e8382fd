"""Which interpreter of a workspace is used, and what of the machine is shown for it."""

from pathlib import Path

import pytest

from gloveport.server.engine.interpreter import OwnPython, is_installation, own_python


def make_installation(folder: Path) -> Path:
    """A folder that is a Python installation by its files; its interpreter."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib/python3.11").mkdir(parents=True)
    (folder / "lib/python3.11/os.py").write_text("")
    python = folder / "bin/python3"
    python.write_text("")
    return python


def make_environment(root: Path, python: Path, name: str = ".venv") -> None:
    """An environment with pytest whose interpreter is a link."""
    (root / name / "lib/python3.11/site-packages/pytest").mkdir(parents=True)
    (root / name / "lib/python3.11/site-packages/pytest/__init__.py").write_text("")
    (root / name / "bin").mkdir()
    (root / name / "bin/python").symlink_to(python)


def test_an_installation_is_shown_for_the_environment_that_came_from_it(tmp_path: Path) -> None:
    """The interpreter of the environment, and the folder its link leads to."""
    root = tmp_path / "project"
    make_environment(root, make_installation(tmp_path / "python"))
    assert own_python(root) == OwnPython(str(root / ".venv/bin/python"), (str(tmp_path / "python"),))


@pytest.mark.parametrize("where", ["keys", "home", "inside"])
def test_a_link_that_leads_elsewhere_shows_nothing(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of secrets, a home that holds a Python, and a folder of the project itself are not shown."""
    root = tmp_path / "project"
    target = {"keys": tmp_path / "ssh", "home": tmp_path / "home", "inside": root / "sub"}[where]
    python = make_installation(target)
    if where == "keys":
        (target / "lib/python3.11/os.py").unlink()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    make_environment(root, python)
    assert own_python(root) is None


def test_an_environment_without_pytest_or_behind_a_link_is_not_taken(tmp_path: Path) -> None:
    """The daemon's own interpreter runs the tests then."""
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    root.mkdir()
    make_environment(elsewhere, make_installation(tmp_path / "python"))
    (root / ".venv").symlink_to(elsewhere / ".venv")
    assert own_python(root) is None
    assert not is_installation(Path("/"))
