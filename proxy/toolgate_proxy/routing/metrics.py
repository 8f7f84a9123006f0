"""Prometheus metrics of backends and of the choice among them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from toolgate_core.metric_series import begin_at_zero

BACKEND_UP = Gauge(
    "toolgate_backend_up",
    "1 while a backend passes its health probes, 0 while it gets no requests, by backend URL.",
    ["backend"],
    multiprocess_mode="livemin",
)
AFFINITY = Counter(
    "toolgate_prefix_affinity",
    "Requests with a long prompt or a `prompt_cache_key`, by where they were sent: to the "
    "deployment preferred for the prefix or the key (`preferred`), or to another because that one "
    "was at capacity (`other`).",
    ["sent"],
)
begin_at_zero(AFFINITY, ("preferred", "other"))
