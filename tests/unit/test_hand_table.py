"""The table of hands: every row is whole, and what it names exists."""

import subprocess
import sys

import pytest

from gloveport.sandbox.monitor.thresholds import HANDS as THRESHOLDS
from gloveport.server.hands import inside
from gloveport.server.hands.libraries import FIX, LibraryMissingError, find_library
from gloveport.server.hands.request import read_answer, whole
from gloveport.server.hands.table import HANDS, TABLE
from gloveport.server.tools.registry import builtin_toolbox
from gloveport.server.tools.rows import rows_text


def test_every_hand_has_its_limits_and_its_breaker() -> None:
    assert HANDS.keys() <= THRESHOLDS.keys()
    for name, hand in HANDS.items():
        assert 0 < hand.wall_s <= 15, name
        assert hand.memory_bytes < hand.memory_bytes_max, name
        assert hand.reaches == (hand.credential != "none"), name


def test_a_substitute_is_a_hand_that_has_none_itself_or_the_table_as_text() -> None:
    for name, hand in HANDS.items():
        if hand.substitute and hand.substitute != TABLE:
            assert HANDS[hand.substitute].substitute == "", name
            assert HANDS[hand.substitute].memory_bytes <= hand.memory_bytes, name
    assert [name for name, hand in HANDS.items() if hand.substitute] == ["file_reader", "file_reader_large", "plot"]


def test_a_missing_library_is_told_with_how_to_install_it() -> None:
    with pytest.raises(LibraryMissingError, match="no-such-library-of-a-hand") as caught:
        find_library("no-such-library-of-a-hand")
    assert caught.value.hint == FIX
    assert "pip install" in FIX


def test_a_library_shows_itself_and_what_it_needs_alone() -> None:
    shown = {path.rpartition("/")[2] for path in find_library("openpyxl").paths}
    assert {"openpyxl", "et_xmlfile"} <= shown
    assert all(name.startswith(("openpyxl", "et_xmlfile")) for name in shown)


@pytest.mark.parametrize("parts", [b"[],", b"{},", b"1.5,"])
def test_an_answer_of_too_many_parts_is_none(parts: bytes) -> None:
    """What is small as text may be large as lists; a hand that was taken over is the one who says it."""
    for count, is_read in ((1_000, True), (2_000_000, False)):
        answer = b'{"rows": [' + parts * count + b'1], "data": "' + b"A" * 1_000_000 + b'"}\n'
        assert (read_answer(answer) is not None) == is_read
    assert read_answer(b"noise\n[1]\n") is None
    assert read_answer(b"[" * 500_000) is None


@pytest.mark.parametrize("value", [True, 1.0, float("inf"), float("nan"), 10**400, -(2**60), "1", None, [1]])
def test_a_number_of_an_answer_is_whole_and_bounded(value: object) -> None:
    assert whole(-7) == -7
    with pytest.raises(ValueError, match="whole number"):
        whole(value)
    with pytest.raises(ValueError, match="whole number"):
        rows_text({"table": "t", "rows": [], "first_row": value, "total_rows": 1})


def test_no_room_of_the_daemon_imports_what_runs_inside() -> None:
    """The programs inside are text for a jail; the package itself holds nothing."""
    names = builtin_toolbox().names
    module = inside.__name__
    program = (
        f"import sys; from {builtin_toolbox.__module__} import builtin_toolbox as made; made(); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert builtin_toolbox.__module__ in loaded
    assert [name for name in loaded if name.startswith(f"{module}.")] == []
    assert {"read_document", "plot", "run_python", "run_javascript", "query_database", "send_email"} <= names
    assert {"list_archive", "unpack_archive", "look_with", "http_request"} <= names
