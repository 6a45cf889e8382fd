"""Words for usage, trace, plan, task and measures.

Purpose: print answers of the views as people read them.
Invariant: what is not known is said to be so; the parts of a turn that are shown sum up to its time.
Must never: ask anybody for anything.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table

from gloveport.protocol.text import counted
from gloveport.protocol.wire import views as wire
from gloveport.server.cli.hints import advice
from gloveport.server.cli.link import out, plain, say
from gloveport.server.cli.phrases import dollars, lasting, local_time, phase_words, short_id

BAR_WIDTH: Final = 24
LINES_SHOWN_MAX: Final = 200
GAP: Final = 2
"""Blanks between two columns."""


def cost_words(sums: wire.UsageSums) -> str:
    """What is known of a cost: an amount, `unpriced`, or both."""
    if sums.cost_nano_usd is None:
        return "unpriced" if sums.unpriced else "–"
    more = f" + {sums.unpriced} unpriced" if sums.unpriced else ""
    return f"{dollars(sums.cost_nano_usd)}{more}"


def print_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of figures; where the terminal is too narrow for it, each row by itself, so that nothing is cut."""
    console = out()
    widths = (max(cell_len(row[at]) for row in (names, *rows)) for at in range(len(names)))
    if sum(widths) + GAP * (len(names) - 1) > console.width:
        for first, *figures in rows:
            console.print(plain(first, "bold"), soft_wrap=False, overflow="fold")
            words = " · ".join(f"{name} {figure}" for name, figure in zip(names[1:], figures, strict=True))
            console.print(Padding(plain(words), (0, 0, 0, 4)), soft_wrap=False, overflow="fold")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column(names[0], no_wrap=True)
    for name in names[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    console.print(table, soft_wrap=False)


def print_usage(answer: wire.UsageShowResult) -> None:
    """Tokens and cost."""
    say(f"session {short_id(answer.session_id)}", "bold")
    sums = [*((row.name, row.sums) for row in answer.by_model), ("in all", answer.total)]
    sums += [(f"turn {short_id(row.name)}", row.sums) for row in answer.by_turn]
    rows = [
        (name, f"{one.requests:,}", f"{one.input_tokens:,}", f"{one.cached_tokens:,}", f"{one.output_tokens:,}",
         cost_words(one))
        for name, one in sums
    ]  # fmt: skip
    print_rows(("", "requests", "in", "cached", "out", "cost"), rows)
    for words in _usage_notes(answer):
        say(words, "dim")


def _usage_notes(answer: wire.UsageShowResult) -> Iterable[str]:
    total = answer.total
    if total.unseen:
        about = "" if total.unseen_nano_usd is None else f", about {dollars(total.unseen_nano_usd)} for their input"
        yield f"{counted(total.unseen, 'request')} gave no count and may have been billed{about}; not in the sums."
    if answer.priced_by:
        yield f"Priced by {answer.priced_by}. {answer.note}"


def print_trace(answer: wire.TraceShowResult) -> None:
    """The split and the timeline of each turn."""
    for turn in answer.turns:
        how = f"{turn.end} ({turn.code})" if turn.code else turn.end
        head = f"turn {short_id(turn.turn_id)} · {how} · {lasting(turn.duration_us)} · goal {turn.goal_revision}"
        say(f"{head} · {local_time(turn.began_at)}", "bold")
        for words in _split(turn):
            say(words)
        for words in _moments(turn):
            say(words, "dim")
        for words in _timeline(turn):
            say(words, "cyan")
    if not answer.turns:
        say("There is no turn yet.")
    for late in answer.late:
        words = f"late: {late.type} of call {late.call_id} came for goal {late.goal_revision}"
        say(f"{words}; the goal was {late.current_revision}, and nothing followed from it", "yellow")
    if answer.late_left_out:
        say(f"[{answer.late_left_out} more late results]", "dim")


def shares(spent: Sequence[int]) -> tuple[int, ...]:
    """Whole percents of the sum that sum up to 100; what rounding leaves goes to those it took most from."""
    total = sum(spent)
    if not total:
        return (0,) * len(spent)
    whole = [one * 100 // total for one in spent]
    most_cut = sorted(range(len(spent)), key=lambda at: -(spent[at] * 100 % total))
    for at in most_cut[: 100 - sum(whole)]:
        whole[at] += 1
    return tuple(whole)


def _split(turn: wire.TraceTurn) -> Iterable[str]:
    parts = turn.parts.model_dump(by_alias=False)
    for (name, spent), share in zip(parts.items(), shares(tuple(parts.values())), strict=True):
        if spent:
            bar = "#" * max(1, spent * BAR_WIDTH // turn.duration_us)
            yield f"  {name.removesuffix('_us').replace('_', ' '):14} {lasting(spent):>12} {share:3} %  {bar}"


def _moments(turn: wire.TraceTurn) -> Iterable[str]:
    named = (
        ("first words after", turn.first_token_us),
        ("first tool after", turn.first_action_us),
        ("released after the stop in", turn.released_us),
    )
    told = [f"{words} {lasting(value)}" for words, value in named if value is not None]
    if told:
        yield f"  {' · '.join(told)}"
    if turn.clock_set_back:
        yield f"  clock moved: it was set back {counted(turn.clock_set_back, 'time')}; that time counts as nothing"


def _timeline(turn: wire.TraceTurn) -> Iterable[str]:
    for line in turn.lines[:LINES_SHOWN_MAX]:
        lasts = "…" if line.lasts_us is None else lasting(line.lasts_us)
        end = f" → {line.outcome}" if line.outcome else ""
        yield f"  {lasting(line.begins_us):>12} {lasts:>12}  {line.kind:10} {line.title}{end}"
    hidden = max(0, len(turn.lines) - LINES_SHOWN_MAX) + turn.lines_left_out
    if hidden:
        yield f"  [{hidden} more lines]"


def print_plan(answer: wire.PlanShowResult) -> None:
    """The steps."""
    if not answer.steps:
        say("There is no plan yet.")
    for step in answer.steps:
        late = f" (made for goal {step.goal_revision}; the goal is {answer.goal_revision} now)"
        say(f"{step.state:8} {step.title}{late if step.superseded else ''}")


def print_task(answer: wire.TaskShowResult) -> None:
    """What runs, waits and failed."""
    since = "" if answer.since is None else f" since {local_time(answer.since)}"
    say(f"{phase_words(answer.phase)}{since} · goal {answer.goal_revision}", "bold")
    for word, things in (("runs", answer.running), ("waits", answer.waiting)):
        for one in things:
            say(f"  {word}: {one.kind} {one.title} ({one.id}), since {local_time(one.since)}")
    if (failure := answer.last_failure) is not None:
        say(f"  failed: {failure.message}", "red")
        say(f"  {advice(failure.code, failure.hint)}")


def print_metrics(answer: wire.MetricsShowResult) -> None:
    """Rates and times."""
    turns = next((row.count for row in answer.counts if row.name == "turns"), 0)
    say(f"{counted(answer.sessions, 'session')}, {counted(turns, 'turn')}", "bold")
    for rate in answer.rates:
        percent = "–" if rate.percent is None else f"{rate.percent} %" if rate.percent or not rate.part else "<1 %"
        say(f"  {rate.name:28} {percent:>6}  ({rate.part} of {rate.whole})")
    for suggestion in answer.suggestions:
        say(f"  {suggestion}", "yellow")
    rows = []
    for row in (*answer.durations, *answer.tools):
        times = (row.p50_us, row.p95_us, row.p99_us, row.highest_us)
        rows.append((f"  {row.name}", str(row.count), *("–" if one is None else lasting(one) for one in times)))
    print_rows(("  time", "count", "p50", "p95", "p99", "highest"), rows)
