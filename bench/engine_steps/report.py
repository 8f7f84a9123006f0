"""The table and the JSON of sessions."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support import markdown

from .options import Kind, Text
from .results import SECTIONS, Block, Measured, Session

HEAD = (
    *("streams", "text", "kind", *SECTIONS),
    *("beyond free", "÷ strict", "median step", "÷ strict", "cold", "÷ strict"),
    *("all threads", "step, ms", "÷ free"),
)


@dataclass(frozen=True)
class Row:
    """One kind in one session. What is named `us` is processor time in µs per sequence and step
    beyond that of free, in the engine's main thread if nothing else is said. Ratios to strict are
    None without strict, and for free."""

    kind: Kind
    streams: int
    text: Text
    us: float
    """Median of the rounds of the mean of the steps."""
    strict_ratio: float | None
    us_median: float
    """Of the median step of the best round, which leaves out most of what else the machine does."""
    median_strict_ratio: float | None
    us_cold: float
    """Of the steps from the kind's first request in the process on."""
    cold_strict_ratio: float | None
    us_process: float
    """Of all threads of the process."""
    sections: dict[str, float]
    """µs per sequence and step in each section, those of free included."""
    tokens: float
    """Mean per step."""
    step_ms: float
    """Wall time of the median step."""
    step_ratio: float
    """To free."""
    checked: int
    """Tokens of the session that were looked up in a mask."""


def rows(session: Session) -> list[Row]:
    free, strict = session.kinds["free"], session.kinds.get("strict")

    def row(name: Kind, kind: Measured) -> Row:
        def ratio(added: Callable[[Measured, Measured], float]) -> float | None:
            if strict is None or name == "free":
                return None
            return added(kind, free) / added(strict, free)

        return Row(
            kind=name,
            streams=session.streams,
            text=session.text,
            us=_mean(kind, free),
            strict_ratio=ratio(_mean),
            us_median=_median_step(kind, free),
            median_strict_ratio=ratio(_median_step),
            us_cold=_cold(kind, free),
            cold_strict_ratio=ratio(_cold),
            us_process=_added(kind, free, lambda block: block.process),
            sections={each: _median(kind, _section(each)) for each in SECTIONS},
            tokens=_median(kind, lambda block: block.tokens),
            step_ms=_median(kind, _step_ms),
            step_ratio=_median(kind, _step_ms) / _median(free, _step_ms),
            checked=session.checked,
        )

    return [row(name, kind) for name, kind in session.kinds.items()]


def lines(found: Sequence[Row]) -> str:
    """Further lines of the table."""
    return "\n".join(markdown.row(_cells(each)) for each in found)


def _cells(row: Row) -> list[str]:
    return [
        str(row.streams),
        row.text,
        row.kind,
        *(f"{row.sections[section]:.1f}" for section in SECTIONS),
        *(f"{row.us:.1f}", _ratio(row.strict_ratio)),
        *(f"{row.us_median:.1f}", _ratio(row.median_strict_ratio)),
        *(f"{row.us_cold:.1f}", _ratio(row.cold_strict_ratio)),
        f"{row.us_process:.1f}",
        *(f"{row.step_ms:.2f}", f"{row.step_ratio:.2f}"),
    ]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"**{value:.2f}**"


def _median(kind: Measured, value: Callable[[Block], float]) -> float:
    return statistics.median(map(value, kind.warm))


def _added(kind: Measured, free: Measured, value: Callable[[Block], float]) -> float:
    """Median of the differences in each round."""
    pairs = zip(kind.warm, free.warm, strict=True)
    return statistics.median(value(block) - value(base) for block, base in pairs)


def _mean(kind: Measured, free: Measured) -> float:
    return _added(kind, free, lambda block: block.mean)


def _median_step(kind: Measured, free: Measured) -> float:
    return min(block.median for block in kind.warm) - min(block.median for block in free.warm)


def _cold(kind: Measured, free: Measured) -> float:
    return kind.cold.mean - free.cold.mean


def _section(name: str) -> Callable[[Block], float]:
    return lambda block: block.by_section[name]


def _step_ms(block: Block) -> float:
    return block.step_ms
