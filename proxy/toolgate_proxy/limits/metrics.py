"""Prometheus metrics of the limits of keys."""

from __future__ import annotations

from prometheus_client import Counter

LIMITED = Counter(
    "toolgate_limited",
    "Requests refused by a limit of their key: `requests`, `tokens`, `parallel_requests` or "
    "`tokens_per_day`.",
    ["limit"],
)
