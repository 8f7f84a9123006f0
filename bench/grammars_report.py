"""The measurements of grammars.py as Markdown tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.markdown import table

QUANTILES = (0.5, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Row:
    """Measurements of one tool. The round trip is wall time, the other times are processor time."""

    origin: str
    engine: str
    status: str
    compile_ms: float
    round_trip_ms: float
    recompile_ms: float | None
    """Compile time with the verdict in Redis, but without a blob."""
    load_ms: float | None
    """Load time of the blob."""
    blob_bytes: int
    stored: bool

    @property
    def hit_ms(self) -> float | None:
        """Cost of a Redis hit in the backend."""
        return self.load_ms if self.stored else self.recompile_ms


@dataclass(frozen=True)
class SetTime:
    size: int
    new: int | None
    """Number of tools that are new to the fleet. None if the backend has the whole set."""
    ms: float


def report(rows: Sequence[Row], times: Sequence[SetTime], *, vocabulary: int, left_out: int) -> str:
    parts = [
        f"{len(rows):,} tools at a vocabulary of {vocabulary:,}; {left_out} more exceed the "
        "limits or are not object schemas.",
        costs(rows),
        verdicts(rows),
        ready(times),
    ]
    return "\n\n".join(parts)


def quantiles(values: Sequence[float]) -> list[str]:
    ordered = sorted(values)
    if not ordered:
        return ["-"] * len(QUANTILES)
    last = len(ordered) - 1
    return [_ms(ordered[min(last, int(len(ordered) * q))]) for q in QUANTILES]


def costs(rows: Sequence[Row]) -> str:
    done = [row for row in rows if row.status == "ready"]
    lines = []
    for origin in ("BFCL", "MaskBench"):
        for engine in ("xgrammar", "llguidance"):
            some = [row for row in done if (row.origin, row.engine) == (origin, engine)]
            lines += _cost_lines(f"{origin}, {engine}", some)
    return table(["ms", "n", "p50", "p95", "p99", "max"], lines)


def _cost_lines(what: str, rows: Sequence[Row]) -> list[list[str]]:
    kinds = {
        "compile, fresh backend": [row.compile_ms for row in rows],
        "quarantine, fork to verdict": [row.round_trip_ms for row in rows],
        "Redis hit, warm backend": [row.hit_ms for row in rows if row.hit_ms is not None],
        "blob load, all": [row.load_ms for row in rows if row.load_ms is not None],
        "compile, tools with a stored blob": [row.compile_ms for row in rows if row.stored],
        "blob load, tools with a stored blob": [
            row.load_ms for row in rows if row.stored and row.load_ms is not None
        ],
    }
    return [
        [f"{what}: {kind}", f"{len(values):,}", *quantiles(values)]
        for kind, values in kinds.items()
        if values
    ]


def verdicts(rows: Sequence[Row]) -> str:
    counts = Counter((row.origin, row.engine, row.status) for row in rows)
    lines = [[*key, f"{count:,}"] for key, count in sorted(counts.items())]
    return table(["origin", "engine", "verdict", "n"], lines)


def ready(times: Sequence[SetTime]) -> str:
    lines = []
    for size in sorted({time.size for time in times}):
        for new in sorted({time.new for time in times if time.size == size}, key=_order):
            some = sorted(t.ms for t in times if (t.size, t.new) == (size, new))
            what = "all loaded" if new is None else f"{new} new"
            lines.append([str(size), what, *map(_ms, (some[0], some[len(some) // 2], some[-1]))])
    return table(["tools", "state", "min ms", "median ms", "max ms"], lines)


def _order(new: int | None) -> int:
    return -1 if new is None else new


def _ms(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
