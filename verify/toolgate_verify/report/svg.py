"""Plots of a report as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..engine.run import Run
from .summary import Count, count, groups

COLOURS = {"passed": "#2e9e5b", "failed": "#d64545", "refused": "#e0a030", "skipped": "#b8bec6"}
WIDTH, ROW, LABEL = 720, 24, 150


def bars(run: Run) -> str:
    """The results of each family as a bar of the four verdicts."""
    rows = [(family, count(results)) for family, results in groups(run.results).items()]
    height = ROW * len(rows) + 8
    parts = [_row(index, name, found) for index, (name, found) in enumerate(rows)]
    return _svg(height, "Results by family", parts)


def _row(index: int, name: str, found: Count) -> str:
    total = found.passed + found.failed + found.refused + found.skipped
    x, y = float(LABEL), index * ROW + 4
    made = [f'<text x="0" y="{y + 14}">{escape(name.replace("_", " "))}</text>']
    for kind, colour in COLOURS.items():
        number = getattr(found, kind)
        width = (WIDTH - LABEL - 40) * number / total
        if number:
            title = f"<title>{number} {kind}</title>"
            made.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}" '
                f'fill="{colour}">{title}</rect>'
            )
        x += width
    made.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{total}</text>')
    return "".join(made)


def latencies(run: Run) -> str:
    """A histogram of the seconds that requests took."""
    seconds = sorted(
        exchange.seconds
        for evidence in run.evidence.values()
        for exchange in evidence.exchanges
        if exchange.status == 200
    )
    if not seconds:
        return ""
    edges = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 1e9]
    counts = _histogram(seconds, edges)
    most = max(counts)
    height, step = 160, WIDTH / len(edges)
    parts = []
    for index, number in enumerate(counts):
        tall = 110 * number / most
        x, y = index * step + 4, 125 - tall
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{step - 8:.1f}" height="{tall:.1f}" '
            f'fill="#4a7fc1"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{y - 3:.1f}">{number or ""}</text>')
        name = f"≤ {edges[index]:g} s" if edges[index] < 1e9 else "longer"
        parts.append(f'<text x="{x:.1f}" y="142">{name}</text>')
    middle = seconds[len(seconds) // 2]
    late = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
    parts.append(f'<text x="4" y="158">median {middle:.2f} s, 95 % within {late:.2f} s</text>')
    return _svg(height, "Seconds per answered request", parts)


def _histogram(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * len(edges)
    for value in values:
        counts[next(at for at, edge in enumerate(edges) if value <= edge)] += 1
    return counts


def _svg(height: float, label: str, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
