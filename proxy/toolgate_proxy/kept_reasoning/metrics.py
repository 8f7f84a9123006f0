"""Prometheus metrics of kept reasoning."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from toolgate_core.metric_series import begin_at_zero

TURNS = Counter(
    "toolgate_kept_reasoning",
    "Turns with reasoning and calls, by result: `kept`, `restored`, or `missing` when a client "
    "sent the turn back without its reasoning and none was found.",
    ["result"],
)
begin_at_zero(TURNS, ("kept", "restored", "missing"))
BREAKER = Gauge(
    "toolgate_kept_reasoning_redis_breaker_open",
    "1 while the Redis connection for kept reasoning is down, otherwise 0.",
    multiprocess_mode="livemax",
)
