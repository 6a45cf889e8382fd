"""The first words of a client, read quickly and by their shape."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.errors import GloveportError
from gloveport.server.transports.lsp.handlers.lifecycle import checked_opening, plain_opening

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(0, 9), st.floats(allow_nan=False), st.text(max_size=4), st.just("n" * 257),
    st.just("\ud800"), st.lists(st.integers(), max_size=1), st.dictionaries(st.text(max_size=2), st.integers()),
)  # fmt: skip


def some(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of the names, each with a fitting value or with anything."""
    return st.fixed_dictionaries({}, optional={name: value | ANYTHING for name, value in values.items()})


PARAMS = some(
    clientInfo=some(name=st.text(max_size=8), version=st.text(max_size=4)),
    capabilities=some(workspace=st.just({"applyEdit": True})),
    initializationOptions=some(decisionToken=st.text(max_size=8), protocolVersion=st.integers(0, 3)),
    processId=st.integers(),
)


@given(PARAMS | ANYTHING)
def test_what_is_taken_quickly_is_taken_alike_by_its_shape(params: Any) -> None:
    """The quick reading takes only what the shape takes, and makes the same of it."""
    quick = plain_opening(params)
    try:
        checked = checked_opening(params)
    except GloveportError:
        assert quick is None
    else:
        assert quick is None or quick == checked


def test_what_clients_send_needs_no_closer_look() -> None:
    """The usual words are plain: the checker is not loaded for them."""
    ours = {"clientInfo": {"name": "gloveport", "version": "1"}, "capabilities": {}, "processId": 7}
    assert plain_opening({**ours, "initializationOptions": {"decisionToken": "t", "protocolVersion": 1}}) is not None
    assert plain_opening({**ours, "initializationOptions": None}) is not None
