"""Which folders of the daemon's own interpreter a jail is shown.

Purpose: a jail can run pytest on every Python that `make` accepts: the system's, a built one, one in a home folder.
Invariant: no folder that every jail has anyway is asked for again; it would be refused.
Must never: depend on the Python that runs these tests.
"""

import sys

import pytest

from gloveport.sandbox.profile import is_below
from gloveport.server.app.resources import readable_roots


@pytest.mark.parametrize("base", ["/usr", "/usr/local", "/opt/python", "/home/me/pythons/3.13"])
def test_a_root_is_named_once_and_never_below_usr(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """On the system's Python the base prefix is /usr itself, which a jail refuses to have mounted."""
    monkeypatch.setattr(sys, "base_prefix", base)
    roots = readable_roots()
    assert not any(is_below(root, "/usr") for root in roots)
    assert not any(is_below(inner, outer) for inner in roots for outer in roots if inner != outer)
    assert any(is_below(base, root) for root in roots) is not is_below(base, "/usr")
