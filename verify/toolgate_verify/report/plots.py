"""Plots of a report as HTML. Their text has the size of the page's in windows of any width."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..engine.run import Run
from .summary import Count, count, groups

COLOURS = {"passed": "#2e9e5b", "failed": "#d64545", "refused": "#e0a030", "skipped": "#9aa3ad"}
NAMES = {"skipped": "not shown"}
"""Names of verdicts in the page, where they differ."""
EDGES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram, in seconds."""
STYLE = """
.plot { display: grid; grid-template-columns: max-content 1fr max-content; gap: .3em .8em }
.plot { font-size: .85em; align-items: center }
.track { display: flex; height: 1.2em } .n { text-align: right; font-variant-numeric: tabular-nums }
.key span { display: inline-block; white-space: nowrap; margin-right: 1em }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .35em }
"""


def bars(run: Run) -> str:
    """The results of each family as a bar of the four verdicts."""
    key = "".join(
        f'<span><i style="background:{colour}"></i>{NAMES.get(kind, kind)}</span>'
        for kind, colour in COLOURS.items()
    )
    rows = [_verdicts(name, count(found)) for name, found in groups(run.results).items()]
    return f"<p class=key>{key}</p>{_plot('Results by family', rows)}"


def _verdicts(name: str, found: Count) -> str:
    numbers = {kind: getattr(found, kind) for kind in COLOURS}
    parts = "".join(
        f'<i style="flex:{number};background:{COLOURS[kind]}" '
        f'title="{number} {NAMES.get(kind, kind)}"></i>'
        for kind, number in numbers.items()
        if number
    )
    return _row(name.replace("_", " "), parts, f"{found.passed}/{sum(numbers.values())}")


def latencies(run: Run) -> str:
    """A histogram of the seconds that requests took."""
    seconds = sorted(
        exchange.seconds
        for evidence in run.evidence.values()
        for exchange in evidence.exchanges
        if exchange.status == 200
    )
    if not seconds:
        return "<p>No request was answered with status 200.</p>"
    counts = histogram(seconds)
    most = max(counts)
    names = [*(f"≤ {edge:g} s" for edge in EDGES), "longer"]
    last = max(at for at, number in enumerate(counts) if number)
    rows = [
        _row(
            names[at],
            f'<i style="width:{100 * counts[at] / most:.1f}%;background:#4a7fc1"></i>',
            str(counts[at]),
        )
        for at in range(last + 1)
    ]
    middle = seconds[len(seconds) // 2]
    late = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
    return (
        f"<p>Median {middle:.2f} s, 95 % within {late:.2f} s.</p>"
        f"{_plot('Answered requests by seconds', rows)}"
    )


def histogram(values: Sequence[float]) -> list[int]:
    """The numbers of values up to each edge, and of those above the last one."""
    counts = [0] * (len(EDGES) + 1)
    for value in values:
        counts[next((at for at, edge in enumerate(EDGES) if value <= edge), len(EDGES))] += 1
    return counts


def _row(name: str, parts: str, number: str) -> str:
    return (
        f"<span>{escape(name)}</span><span class=track>{parts}</span><span class=n>{number}</span>"
    )


def _plot(label: str, rows: Sequence[str]) -> str:
    return f'<div class=plot role=group aria-label="{escape(label)}">{"".join(rows)}</div>'
