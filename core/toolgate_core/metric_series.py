"""Time series of metrics with labels, from the start of a process.

Prometheus computes the increase of a series from its first sample, so it never sees the event that
begins a series. A metric without labels is exported as 0 from the start, but one with labels begins
when a label is first used. Each `metrics.py` therefore declares the values that a label can have.
Series of configured models and backends begin when the gateway starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class LabelledMetric(Protocol):
    """A metric of prometheus_client with labels."""

    def labels(self, *values: str) -> object: ...


def begin_at_zero(metric: LabelledMetric, values: Iterable[str | tuple[str, ...]]) -> None:
    """Export a series for each value. `values`: of the label, or tuples of several labels."""
    for labels in values:
        metric.labels(*((labels,) if isinstance(labels, str) else labels))
