"""Prometheus metrics of the connections to Redis."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from toolgate_core.metric_series import begin_at_zero

ERRORS = Counter(
    "toolgate_redis_errors",
    "Redis commands that failed, by kind: `refused` (an error reply, for example out of memory), "
    "`timeout` or `connection`.",
    ["kind"],
)
begin_at_zero(ERRORS, ("refused", "timeout", "connection"))
BREAKER = Gauge(
    "toolgate_redis_breaker_open",
    "1 while the Redis connection for grammars is down and requests skip it, otherwise 0.",
    multiprocess_mode="livemax",
)
SECONDS = Histogram(
    "toolgate_redis_seconds",
    "Time of one exchange with Redis, which may have several commands, with the wait for a "
    "connection. Exchanges without a reply have the time after which they were given up.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
