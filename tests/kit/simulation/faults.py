"""Faults to plant in a log, so that the rules are seen to bite.

Purpose: small changes of a log, each a function from a log to a log, and the monitor's reading of the result.
Invariant: the log that is given is left alone.
"""

from collections.abc import Callable

from tests.kit.simulation.monitor import Monitor

from gloveport.protocol.journal.events import EventBody

Log = list[EventBody]
Fault = Callable[[Log], Log]


def at(log: Log, kind: type[EventBody], nth: int = 0) -> int:
    """Where the nth event of a type stands."""
    return [index for index, body in enumerate(log) if isinstance(body, kind)][nth]


def drop(kind: type[EventBody], nth: int = 0) -> Fault:
    """Without it."""
    return lambda log: [body for index, body in enumerate(log) if index != at(log, kind, nth)]


def double(kind: type[EventBody], nth: int = 0) -> Fault:
    """Twice."""

    def plant(log: Log) -> Log:
        index = at(log, kind, nth)
        return [*log[: index + 1], log[index], *log[index + 1 :]]

    return plant


def alter(kind: type[EventBody], nth: int = 0, /, **changes: object) -> Fault:
    """With other fields."""

    def plant(log: Log) -> Log:
        index = at(log, kind, nth)
        return [*log[:index], log[index].model_copy(update=changes), *log[index + 1 :]]

    return plant


def move(kind: type[EventBody], before: type[EventBody], nth: int = 0, before_nth: int = 0) -> Fault:
    """In another place, before the nth of a type."""

    def plant(log: Log) -> Log:
        source, target = at(log, kind, nth), at(log, before, before_nth)
        rest = [body for index, body in enumerate(log) if index != source]
        target -= source < target
        return [*rest[:target], log[source], *rest[target:]]

    return plant


def both(first: Fault, then: Fault) -> Fault:
    """One fault and then another."""
    return lambda log: then(first(log))


def many(kind: type[EventBody], count: int, name: str) -> Fault:
    """The first of its type, `count` times more under other names."""

    def plant(log: Log) -> Log:
        index = at(log, kind)
        more = [log[index].model_copy(update={name: f"more{number}"}) for number in range(count)]
        return [*log[: index + 1], *more, *log[index + 1 :]]

    return plant


def read(log: Log) -> None:
    """Let the monitor read a log. Raises BrokenRuleError."""
    monitor = Monitor()
    for body in log:
        monitor.take(body)
