"""Prometheus metrics of virtual keys."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

REFUSED = Counter(
    "toolgate_keys_refused",
    "Requests refused because of their API key, by error code.",
    ["code"],
)
REDIS_BREAKER = Gauge(
    "toolgate_keys_redis_breaker_open",
    "1 while the Redis connection for keys and limits is down, otherwise 0.",
    multiprocess_mode="livemax",
)
