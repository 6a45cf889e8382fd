"""The breaker's thresholds, sample by sample, and the table they come from."""

import json

import pytest

from gloveport.protocol.jail.replies import ExitKind, RunExit, decode_exit, encode_exit
from gloveport.protocol.jail.requests import BreakerPlan
from gloveport.sandbox.monitor.thresholds import HANDS, plan_breaker
from gloveport.sandbox.profile import Limits, Profile
from gloveport.sandbox.runner.breaker import Breaker

PLAN = BreakerPlan(True, 0.95, 3.0, 100, 1_000)


@pytest.mark.parametrize(("share", "passes"), [(0.96, True), (0.94, False)])
def test_processor_over_the_whole_window(share: float, passes: bool) -> None:
    """95 % for three seconds, told once; a rest in the window is no threshold passed."""
    breaker = Breaker(PLAN)
    seen = [breaker.judge(at / 10, share * at / 10, 0, 0, "") for at in range(60)]
    told = [(at, ending) for at, ending in enumerate(seen) if ending is not None]
    assert [(at, ending.kind) for at, ending in told] == ([(30, ExitKind.KILLED)] if passes else [])


def test_a_rest_within_the_window_is_none() -> None:
    """2.5 s of work, half a second of rest, again and again."""
    breaker, used = Breaker(PLAN), 0.0
    for at in range(200):
        used += 0.1 if at % 30 < 25 else 0.0
        assert breaker.judge(at / 10, used, 0, 0, "") is None


def test_memory_and_calls_are_told_once_each() -> None:
    """What is over a threshold stays over it."""
    breaker = Breaker(PLAN)
    kinds = [ending.kind for at in range(4) if (ending := breaker.judge(at, 0.0, 101, 1_001, "1001 openat"))]
    assert kinds == [ExitKind.OOM, ExitKind.POLICY]


def test_small_hands_are_ended_and_programs_of_the_user_only_alarm() -> None:
    """The soft memory limit is the hard one through 1.2."""
    limits = Limits(wall_s=1.0, memory_bytes_max=120)
    for hand in HANDS:
        plan = plan_breaker(Profile("x", "small", (), "/", limits, hand=hand))
        assert plan.ends == (hand not in ("run_command", "run_tests"))
        assert plan.memory_soft_bytes == 100
    assert not plan_breaker(Profile("x", "build", (), "/", limits)).ends


def test_an_end_that_an_older_supervisor_wrote_is_read() -> None:
    """Without denials, alarms and dump."""
    end = RunExit(ExitKind.OK, 0, None, "exit status 0", 1.0, 0.5, None, 3)
    body = json.loads(encode_exit(end))
    for name in ("denied", "alarms", "dump"):
        body.pop(name)
    assert decode_exit(json.dumps(body).encode()) == end
