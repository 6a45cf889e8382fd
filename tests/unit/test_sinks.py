"""The table of sinks: whose word each accepts, and who reads there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.policy.effects import OUTGOING_KINDS, SINK_KINDS
from gloveport.server.policy.labels import BOTTOM, TOP, Integrity, Label
from gloveport.server.policy.sinks import (
    EFFECT_SINKS,
    SHARED_HOSTS,
    SINKS,
    SinkName,
    accepts_data,
    accepts_word,
    is_shared_host,
    provider_reader,
)

HOSTS = st.sampled_from(["a.example", "b.example", *SHARED_HOSTS])
LABELS = st.builds(Label, st.sampled_from(Integrity), st.none() | st.frozensets(HOSTS))


def test_every_effect_by_which_something_leaves_has_a_sink_that_takes_the_users_word_alone() -> None:
    assert set(EFFECT_SINKS) == set(SINK_KINDS)
    for kind in SINK_KINDS:
        sink = SINKS[EFFECT_SINKS[kind]]
        assert accepts_word(BOTTOM, sink)
        assert not accepts_word(Label(Integrity.WORKSPACE, None), sink)
    assert set(EFFECT_SINKS) >= OUTGOING_KINDS
    assert set(SINKS) == set(SinkName)


def test_what_is_unknown_goes_nowhere() -> None:
    for sink in SINKS.values():
        assert not accepts_data(TOP, sink, "a.example")
        assert accepts_word(TOP, sink) == (sink.integrity_max is Integrity.UNTRUSTED)


@given(LABELS, LABELS, HOSTS, st.sampled_from(list(SINKS.values())), st.booleans())
def test_more_that_was_read_never_opens_a_sink(one: Label, two: Label, host: str, sink: object, own: bool) -> None:
    both = one.join(two)
    if accepts_word(both, sink):  # type: ignore[arg-type]  # - a sink of the table
        assert accepts_word(one, sink)  # type: ignore[arg-type]  # - a sink of the table
    if accepts_data(both, sink, host, own_account=own):  # type: ignore[arg-type]  # - a sink of the table
        assert accepts_data(one, sink, host, own_account=own)  # type: ignore[arg-type]  # - a sink of the table


@pytest.mark.parametrize("host", ["github.com", "api.github.com", "x.s3.amazonaws.com"])
def test_a_place_that_many_share_is_public_but_for_the_users_own_account(host: str) -> None:
    label = Label(Integrity.USER, frozenset({host}))
    http = SINKS[SinkName.http]
    assert is_shared_host(host)
    assert not accepts_data(label, http, host)
    assert accepts_data(label, http, host, own_account=True)
    assert accepts_data(Label(Integrity.USER, None), http, host)


def test_a_name_that_only_ends_alike_is_not_shared() -> None:
    assert not is_shared_host("notgithub.com")
    assert not is_shared_host("github.com.evil.example")


def test_a_provider_is_a_reader_under_its_own_name() -> None:
    label = Label(Integrity.USER, frozenset({provider_reader("openai")}))
    assert accepts_data(label, SINKS[SinkName.provider], "openai")
    assert not accepts_data(label, SINKS[SinkName.provider], "anthropic")
    assert not accepts_data(label, SINKS[SinkName.http], "openai")
