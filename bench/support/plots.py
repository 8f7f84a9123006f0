"""SVG charts. They are small, and equal data gives equal bytes.

Figures are made without pyplot, because pyplot needs a display.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0b6bcb", "#d9822b", "#4c9a52", "#8e5ba6", "#8a8a8a", "#c23b3b")
GREY, BLACK = "#e4e4e4", "#333333"


def lines(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """A line of (x, y) points for each of `series`. The y axis begins at 0."""
    with _style():
        figure, axes = _begin(title, y_label)
        for (name, points), colour in zip(series.items(), cycle(COLOURS), strict=False):
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, color=colour, label=name)
        axes.set_xlabel(x_label)
        _end(figure, axes, path, named=len(series) > 1)


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "svg.hashsalt": "toolgate",  # ids in the file are random without it
            "svg.fonttype": "none",  # text stays text
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.titlesize": 11,
        }
    )


def _begin(title: str, y_label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_ylabel(y_label)
    axes.grid(axis="y", color=GREY)
    return figure, axes


def _end(figure: Figure, axes: Axes, path: Path, *, named: bool) -> None:
    axes.set_ylim(bottom=0)
    if named:
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
