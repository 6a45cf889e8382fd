"""How a figure is printed: name, value, the bar it has to clear, their ratio, and whether it does."""

import os
import statistics
from collections.abc import Sequence
from typing import Literal

Better = Literal["less", "more"]


def heading(words: str) -> None:
    """Name what follows and the machine, by its cores alone; load from elsewhere makes every time worse."""
    print(f"{words} ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")


def tell(
    name: str, value: float, unit: str, bar: float | None = None, better: Better = "less", beside: str = ""
) -> None:
    """One line. A ratio above 1 is a bar that was missed, whichever direction is better."""
    line = f"  {name:48s} {value:10,.2f} {unit:5s}"
    if bar is not None:
        ratio = value / bar if better == "less" else bar / value
        line += f" bar {bar:9,.2f}  ratio {ratio:5.2f}  {'within' if ratio <= 1 else 'MISSED'}"
    print(f"{line}  {beside}".rstrip())


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
