"""Answers of the views: pages of a transcript, what is redacted, which methods they are for."""

import json
from typing import Any

import pytest
from tests.kit.projections import PRICES
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, StoredEvent
from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.commands.port import READS
from gloveport.server.commands.view_answers import SHOWN, Aids, metrics_answer
from gloveport.server.engine.projecting import feed, never, read_into
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.transcript import TranscriptProjection


def marked(text: str) -> str:
    """A redactor that knows two secrets."""
    return text.replace("words", "[out]").replace("😀", "[out]")


def told(run: Simulation) -> tuple[StoredEvent, ...]:
    return tuple(run.ledger.stored)


async def test_pages_of_a_transcript_are_the_transcript() -> None:
    """Begun anew at each page's last number, whatever the page's size; no block is cut, doubled or lost."""
    events = told(Simulation(7500, crash_rate=0.05).run(200))

    async def read(after: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
        return events[after : after + 7]

    whole = TranscriptProjection()
    assert await read_into(read, whole) is None
    for size in (1, 300, 2_000):
        text, pages, after = "", 0, 0
        while True:
            page = TranscriptProjection()
            stopped = await read_into(read, page, after, lambda one, size=size: one.size >= size and one.at_rest)
            text, pages = text + page.drain(), pages + 1
            if stopped is None:
                break
            after = stopped
        assert text == whole.finish()
        assert pages > 1


def test_what_is_named_alone_is_not_decoded() -> None:
    """A piece of text whose bytes are no JSON is passed over by whoever needs no more than its name."""
    (event,) = told(Simulation(1).run(0))[:1]
    broken = event._replace(type="ModelTextDelta", payload=b"\xff")
    assert feed(MetricsProjection(), [broken], never) is None
    erased = event._replace(payload=ERASED_PAYLOAD, erased="0" * 64)
    transcript = TranscriptProjection()
    feed(transcript, [erased], never)
    assert "erased" in transcript.finish()


def test_a_transcript_says_that_trust_was_not_chosen() -> None:
    """Not by the name that the record has for it; a level that was chosen is told by its own."""
    (event,) = told(Simulation(1).run(0))[:1]
    plain = json.loads(event.payload)
    for level, words in (("unset", "trust not chosen yet"), ("restricted", "restricted")):
        transcript = TranscriptProjection()
        feed(transcript, [event._replace(payload=json.dumps({**plain, "trust_level": level}).encode())], never)
        assert f"· {words}\n" in f"{transcript.finish()}\n"


@pytest.mark.parametrize(("title", "headed"), [("proj", "# Mend the sum"), ("Sums", "# Sums"), ("", "# Session")])
def test_a_transcript_is_headed_as_its_session_is_listed(title: str, headed: str) -> None:
    """By the title that was given; where that is the folder's name alone, by the first message."""
    created, *rest = told(Story().user_says("Mend  the\nsum"))
    named = json.dumps({**json.loads(created.payload), "title": title, "root": "/repo/proj"}).encode()
    transcript = TranscriptProjection()
    feed(transcript, [created._replace(payload=named)], never)
    assert transcript.finish().startswith(f"# {title or 'Session'}\n"), "before anything was said"
    feed(transcript, rest, never)
    assert transcript.finish().startswith(f"{headed}\n")


@pytest.mark.parametrize("method", sorted(SHOWN))
def test_every_text_is_redacted(method: str) -> None:
    """Words of the user and titles of cards and calls pass the redactor."""
    story = (
        Story().user_says("secret words").model_answers(call("run_command", '{"argv":["secret"]}')).policy_says("ask")
    )
    shown = SHOWN[method]
    projection: Any = shown.begin()
    feed(projection, told(story), never)
    params = METHODS[method].params.model_validate({"session_id": "s1"})
    answer = shown.answer(projection, params, Aids(PRICES, marked))
    text = str(answer.model_dump(mode="json"))
    assert "words" not in text
    assert "😀" not in text


def test_samples_are_raw_only_when_asked() -> None:
    """The same records without the redactor."""
    projection: Any = SHOWN["sample/list"].begin()
    feed(projection, told(Story().user_says("words")), never)
    answers = [
        SHOWN["sample/list"].answer(
            projection, wire.SampleListParams(session_id="s1", redacted=redacted), Aids({}, marked)
        )
        for redacted in (True, False)
    ]
    tasks = [answer.samples[0]["task"] for answer in answers]  # type: ignore[attr-defined] # the method's own result
    assert tasks == [["[out]"], ("words",)]


def test_a_rate_of_nothing_is_no_rate() -> None:
    """Without a question nobody was denied 0 %."""
    answer = metrics_answer(MetricsProjection().finish(), 0)
    assert all(rate.percent is None for rate in answer.rates)
    assert all(one.p99_us is None and one.highest_us is None for one in answer.durations)


def test_every_view_is_served() -> None:
    """The table of views and the tables of methods name the same."""
    assert {name for name in METHODS if METHODS[name].params.__module__ == wire.__name__} == {
        *SHOWN, "session/transcript", "metrics/show",
    }  # fmt: skip
    assert set(SHOWN) <= set(READS)
