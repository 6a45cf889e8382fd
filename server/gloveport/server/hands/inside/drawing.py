"""The plot hand: numbers in, one PNG out.

Purpose: draw a chart with matplotlib, without a screen and without reading anything but the request.
Invariant: one picture of a bounded size is answered.
Must never: be imported by the daemon.

Asked: `{"kind", "title", "x_label", "y_label", "labels": [text], "series": [{"name", "values": [number]}], "width_px",
"height_px"}`. Answers `{"png": base64}`.
"""

import base64
import io
from typing import Any, Final

import matplotlib as mpl

from gloveport.server.hands.inside.frame import Answer, serve

DPI: Final = 100
LABELS_STRAIGHT: Final = 8


def draw(asked: dict[str, Any], _data: bytes) -> Answer:
    """The chart as PNG."""
    mpl.use("agg")
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(asked["width_px"] / DPI, asked["height_px"] / DPI), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    labels, series = [_plain(one) for one in asked["labels"]], asked["series"]
    _draw(asked["kind"], axes, labels, series)
    axes.set_title(_plain(asked["title"]))
    if asked["kind"] != "pie":
        axes.set_xlabel(_plain(asked["x_label"]))
        axes.set_ylabel(_plain(asked["y_label"]))
        if len(series) > 1:
            axes.legend()
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return {"png": base64.b64encode(out.getvalue()).decode("ascii")}


def _plain(text: str) -> str:
    """Text that is drawn as it stands: a dollar begins no formula."""
    return text.replace("$", r"\$")


def _draw(kind: str, axes: Any, labels: list[str], series: list[dict[str, Any]]) -> None:
    match kind:
        case "bar":
            _bars(axes, labels, series)
        case "pie":
            axes.pie(series[0]["values"], labels=labels, autopct="%1.0f%%")
        case "histogram":
            for one in series:
                axes.hist(one["values"], alpha=0.7, label=_plain(one["name"]))
        case "scatter":
            for one in series:
                axes.scatter(labels, one["values"], label=_plain(one["name"]))
        case _:
            for one in series:
                axes.plot(labels, one["values"], marker="o", label=_plain(one["name"]))


def _bars(axes: Any, labels: list[str], series: list[dict[str, Any]]) -> None:
    share = 0.8 / len(series)
    for number, one in enumerate(series):
        places = [place + number * share for place in range(len(one["values"]))]
        axes.bar(places, one["values"], share, label=_plain(one["name"]))
    middle, turned = 0.4 - share / 2, 30 if len(labels) > LABELS_STRAIGHT else 0
    axes.set_xticks([place + middle for place in range(len(labels))], labels, rotation=turned)


def main() -> None:
    """Draw one chart."""
    serve(draw)
