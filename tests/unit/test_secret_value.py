"""A secret shows itself only when asked by name."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.secrets.value import Secret

WORD = "sesame-open-123"


@given(st.text(min_size=12))
def test_no_way_of_printing_shows_it(value: str) -> None:
    secret = Secret(value)
    shown = f"{secret} {secret!r} {secret!s} {secret:>30} {[secret]} { ({'k': secret}) }" + "%s" % secret  # noqa: UP031 - one of the ways
    assert value not in shown
    assert secret.reveal() == value


@given(st.text(), st.text())
def test_equal_values_are_equal_and_nothing_else(one: str, other: str) -> None:
    assert (Secret(one) == Secret(other)) == (one == other)
    assert Secret(one) != one
    assert bool(Secret(one)) == bool(one)


def test_it_is_neither_stored_nor_a_key() -> None:
    secret = Secret(WORD)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(secret)
    with pytest.raises(TypeError):
        hash(secret)
    assert not hasattr(secret, "__dict__")
