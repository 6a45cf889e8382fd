"""All projections by name, and one spelling of what they give.

`python -m tests.kit.projections --write` writes the golden outputs anew.

Purpose: feed every projection in the same way, and compare what comes out with files.
Invariant: a projection that is not named here is not tested; a test compares the names with the room's modules.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.kit.placed import placed_recording
from tests.kit.simulation.recordings import FOLDER

from gloveport.server.session.views.context import ContextProjection
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Placed, Projection, project
from gloveport.server.session.views.plan import PlanProjection
from gloveport.server.session.views.price import PriceBook, PriceRule, Rates
from gloveport.server.session.views.samples import SampleProjection
from gloveport.server.session.views.task import TaskProjection
from gloveport.server.session.views.trace import TraceProjection
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.session.views.usage import UsageProjection

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "projections"
PRICES: Final[PriceBook] = {
    ("scripted", "script"): (PriceRule(Rates(((-1, 3_000_000_000),), ((-1, 15_000_000_000),))),),
}


class PricedUsage(UsageProjection):
    """Usage under the prices of the tests."""

    def finish(self, prices: PriceBook | None = None) -> Any:
        """Usage, priced."""
        return super().finish(prices or PRICES)


MAKERS: Final[Mapping[str, Callable[[], Projection[object]]]] = {
    "context": ContextProjection,
    "metrics": MetricsProjection,
    "plan": PlanProjection,
    "samples": SampleProjection,
    "task": TaskProjection,
    "trace": TraceProjection,
    "transcript": TranscriptProjection,
    "transcript-plain": lambda: TranscriptProjection("plain"),
    "usage": PricedUsage,
}


def plain(value: Any) -> Any:
    """A result as plain JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    is_row = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return [plain(part) for part in value] if is_row else value


def outcome(name: str, events: list[Placed]) -> Any:
    """What a projection gives for these events."""
    return plain(project(MAKERS[name](), events).finish())


def golden() -> dict[str, str]:
    """The golden files: for each recording what every projection says of it."""
    return {
        path.name: json.dumps(
            {name: outcome(name, placed_recording(path)) for name in MAKERS}, indent=1, ensure_ascii=True
        )
        + "\n"
        for path in sorted(FOLDER.glob("*.json"))
    }


def main() -> int:
    """Write the golden files."""
    parser = argparse.ArgumentParser(description="Golden outputs of the projections.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    for name, text in golden().items():
        (GOLDEN / name).write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
