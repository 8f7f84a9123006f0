"""Prometheus metrics of the limits of keys."""

from __future__ import annotations

from prometheus_client import Counter

LIMITED = Counter(
    "toolgate_limited",
    "Requests refused by a limit of their API key, by the limit's label in docs/limits.md.",
    ["limit"],
)
