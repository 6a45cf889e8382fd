"""Words of the command line: numbers, ends of ids, reasons, clauses that are said once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.cli.cards import common_end
from gloveport.server.cli.hints import advice
from gloveport.server.cli.phrases import (
    NOT_SENT,
    answered_words,
    call_title,
    card_words,
    counted,
    counts_of_tests,
    dollars,
    lasting,
    local_time,
    phase_words,
    reason_of,
    retry_words,
    short_ids,
    since,
    sized,
    standing_words,
)
from gloveport.server.models.contract import ErrorClass
from gloveport.server.session.views.held import HELD_BACK

CLAUSES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 0, 0, 0), "no tests ran"),
        ((1, 0, 1, 0), "1 passed, 0 failed, 1 error"),
        ((3, 2, 2, 4), "3 passed, 2 failed, 2 errors, 4 skipped"),
        ((0, 0, 0, 1), "0 passed, 0 failed, 1 skipped"),
    ],
)
def test_counts_of_tests(numbers: tuple[int, ...], words: str) -> None:
    """Nothing is counted that there is not, and one is not many."""
    assert counts_of_tests(dict(zip(("passed", "failed", "errors", "skipped"), numbers, strict=True))) == words


def test_what_was_held_back_is_no_attempt() -> None:
    """The number of an attempt stands only where one is made; the class that says so is the models' own."""
    retry = {"reason": "it is left alone.", "backoffUs": 1_500_000, "attempt": 2, "attemptsMax": 5}
    held = retry_words(retry | {"errorClass": ErrorClass.PAUSED.value})
    assert held == "not sent yet: it is left alone; looking again in 2 s"
    assert HELD_BACK == NOT_SENT == ErrorClass.PAUSED.value
    made = retry_words(retry | {"errorClass": "connect"})
    assert made == "it is left alone; trying again in 2 s, attempt 2 of 5"


def test_one_and_many() -> None:
    """Singular and plural, in numbers and in times."""
    assert (counted(1, "hunk"), counted(0, "hunk")) == ("1 hunk", "0 hunks")
    assert since(0, 61) == "1 minute ago"
    assert since(0, 7_300) == "2 hours ago"


def test_phases_in_words() -> None:
    """No name of the kernel's stands where a person reads."""
    assert [phase_words(one) for one in ("idle", "model", "tools")] == ["idle", "answering", "working"]


@given(st.lists(st.text("0123456789abcdef", min_size=7, max_size=12), min_size=1, max_size=30, unique=True))
def test_short_ids_name_one_session(names: list[str]) -> None:
    """Each is found in one id only, unless the whole id is a part of another."""
    for name, short in short_ids(names).items():
        assert name.endswith(short)
        assert len(short) >= 6
        assert sum(short in other for other in names) == 1 or short == name


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map(", ".join), min_size=2, max_size=4)
)
def test_what_all_say_is_said_once(sentences: list[str]) -> None:
    """Each sentence is what is left of it and the common end; none is left empty; nothing more is common."""
    end = common_end(sentences)
    rest = [sentence.removesuffix(end) for sentence in sentences]
    assert all(sentence.endswith(end) for sentence in sentences)
    assert all(rest)
    assert common_end(rest) == ""


def test_a_reason_is_one() -> None:
    """The first line of a program's output is no reason; its exit code is. Two stops never follow one another."""
    failed = {"state": "failed", "exitCode": 2, "result": "all is well\n[exit code 2]", "outputBytes": 12}
    assert reason_of(failed) == "exit code 2"
    denied = {"state": "denied", "exitCode": None, "result": "Not allowed: so. Choose another way.", "outputBytes": 0}
    assert reason_of(denied) == "Not allowed: so"
    late = {
        "state": "timeout",
        "exitCode": None,
        "evidence": "timeout: after 2 s; killed",
        "result": "x",
        "outputBytes": 1,
    }
    assert reason_of(late) == "timeout: after 2 s"


def test_a_call_is_named_by_what_it_asked_for() -> None:
    """Arguments as a person would say them; what is no JSON names the tool."""
    assert call_title("run_command", '{"argv": ["ls", "-l"]}') == "Run ls -l"
    assert call_title("write_file", '{"path": "a.txt", "content": "x"}') == "write_file a.txt"
    assert call_title("x", "{") == "x"
    assert call_title("x", "[1]") == "x"


def test_own_words_of_a_failure_stay() -> None:
    """A hint made for the case is shown as it is; the table's stands in for words that name a method."""
    assert advice("change.unknown", "Only this once.") == "Only this once."
    assert advice("approval.unknown", "List them: grant/list.") == "See what waits: gloveport approve"
    assert advice("newer.code", "Words of a newer daemon.") == "Words of a newer daemon."


def test_amounts_in_words() -> None:
    """Rounded to a hundredth of a cent, and never to nothing."""
    assert [dollars(n) for n in (0, 1, 49_999, 50_000, 123_456_789, 12_345_678_900_000)] == [
        "$0", "<$0.0001", "<$0.0001", "$0.0001", "$0.1235", "$12345.6789",
    ]  # fmt: skip


def test_sizes_in_words() -> None:
    """The unit that suits it."""
    assert [sized(count) for count in (0, 1, 1023, 1536, 4_865_752, 3 << 30)] == [
        "0 bytes", "1 byte", "1023 bytes", "1.5 KiB", "4.6 MiB", "3.0 GiB",
    ]  # fmt: skip


def test_durations_in_words() -> None:
    """Each in the unit that suits it."""
    assert [lasting(n) for n in (0, 999, 12_345, 4_560_000, 125_000_000)] == [
        "0 µs", "999 µs", "12.3 ms", "4.56 s", "2 min 05 s",
    ]  # fmt: skip


def test_a_reason_is_never_an_announcement_of_nothing() -> None:
    """Where the first line announces the places, the first of them is said; a reason of one line stays as it is."""
    text = "No line is as given. Places that may be meant:\n  line 3: sum\n  line 9: mean"
    told = reason_of({"state": "invalid", "result": text})
    assert told == "No line is as given. Places that may be meant: line 3: sum"
    assert reason_of({"state": "invalid", "result": "There is no such file."}) == "There is no such file"


def test_a_proposal_that_ended_by_itself_is_not_told_as_if_a_file_had_gone_back() -> None:
    """Nothing differed any more, or it was taken back; a decision of the user's is told as such."""
    assert "reverted" not in standing_words("reverted", ())
    assert standing_words("reverted", ["accepted"]) == "accepted"
    assert card_words("superseded") == "no longer asked"
    assert card_words("denied") == "denied"
    answered = {"by": "vscode", "answeredAt": 1_700_000_000_000_000, "answeredSeq": 1302}
    assert answered_words(answered) == f"vscode · {local_time(1_700_000_000_000_000)} · #{1302:,}"
    assert answered_words({**answered, "answeredAt": 0}) == f"vscode · #{1302:,}"
    assert answered_words({"by": "vscode"}) == ""
