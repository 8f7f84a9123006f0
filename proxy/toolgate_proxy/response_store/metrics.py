"""Prometheus metrics of stored responses."""

from __future__ import annotations

from typing import get_args

from prometheus_client import Counter, Gauge

from toolgate_core.metric_series import begin_at_zero

from .sealed_store import NotStored

STORED = Counter(
    "toolgate_responses_stored",
    "Responses that were to be stored, by result: `stored`, `unavailable`, `too_large`, "
    "`exists` or `disabled`.",
    ["result"],
)
begin_at_zero(STORED, ("stored", *get_args(NotStored)))
DROPPED = Counter(
    "toolgate_responses_dropped",
    "Stored responses that were dropped because their key or team reached its quota.",
)
BROKEN = Counter(
    "toolgate_responses_broken",
    "Records of responses that did not open: they were changed, or sealed with another secret.",
)
BREAKER = Gauge(
    "toolgate_responses_redis_breaker_open",
    "1 while the Redis connection for stored responses is down, otherwise 0.",
    multiprocess_mode="livemax",
)
