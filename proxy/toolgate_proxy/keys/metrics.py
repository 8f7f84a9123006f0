"""Prometheus metrics of virtual keys."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from toolgate_core.errors import InvalidKey, KeysUnavailable, PermissionDenied, TooManyWrongKeys
from toolgate_core.metric_series import begin_at_zero

REFUSED = Counter(
    "toolgate_keys_refused",
    "Requests refused because of their API key, by error code.",
    ["code"],
)
REFUSALS = (InvalidKey, KeysUnavailable, PermissionDenied, TooManyWrongKeys)
begin_at_zero(REFUSED, [each.code for each in REFUSALS])
REDIS_BREAKER = Gauge(
    "toolgate_keys_redis_breaker_open",
    "1 while the Redis connection for keys and limits is down, otherwise 0.",
    multiprocess_mode="livemax",
)
