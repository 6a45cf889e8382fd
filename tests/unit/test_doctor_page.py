"""The page about the doctor names exactly the lines that it prints, in their order, and the numbers that it tries."""

import re
from pathlib import Path

from gloveport.sandbox.contract import Claim
from gloveport.sandbox.doctor.examine import PROBES
from gloveport.sandbox.doctor.findings import Verdict
from gloveport.sandbox.doctor.trials import BOMB_MAX, BOMB_TRIES

PAGE = (Path(__file__).resolve().parents[2] / "docs/doctor.md").read_text(encoding="utf-8")


def test_the_page_names_each_line_once_in_the_order_of_the_doctor() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == PROBES


def test_the_page_names_each_promise_that_may_not_be_claimed() -> None:
    promises = re.search(r"^A sandbox may promise .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert promises is not None
    assert {claim.value for claim in Claim} == set(re.findall(r"`(\w+)`", promises.group()))


def test_the_page_has_each_verdict_and_the_numbers_that_are_tried() -> None:
    rows = re.findall(r"^\| . \| ([a-z ]+):", PAGE, re.MULTILINE)
    assert rows == [verdict.value.replace("_", " ") for verdict in Verdict]
    assert f"{BOMB_TRIES} processes, of which at most {BOMB_MAX} may live" in PAGE
