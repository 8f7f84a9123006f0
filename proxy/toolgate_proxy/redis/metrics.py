"""Prometheus metrics of the connections to Redis."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

ERRORS = Counter(
    "toolgate_redis_errors",
    "Redis commands that failed, by kind: `refused` (an error reply, for example out of memory), "
    "`timeout` or `connection`.",
    ["kind"],
)
BREAKER = Gauge(
    "toolgate_redis_breaker_open",
    "1 while the Redis connection for grammars is down and requests skip it, otherwise 0.",
    multiprocess_mode="livemax",
)
