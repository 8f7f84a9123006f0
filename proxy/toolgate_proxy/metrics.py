"""The gateway's Prometheus metrics, in the client's default registry: LiteLLM's own /metrics, where
it is switched on, shows them too."""

from __future__ import annotations

import os

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

GRAMMARS = Counter(
    "toolgate_grammars", "Grammars that requests needed, by the tier that had them.", ["tier"]
)
REFUSED = Counter("toolgate_grammars_refused", "Schemas refused by a backend, by code.", ["code"])
COMPILE_SECONDS = Histogram(
    "toolgate_grammar_compile_seconds",
    "What backends said compiling took.",
    ["engine"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
KNOWN = Gauge(
    "toolgate_grammars_known",
    "Grammars that this process knows a backend to hold.",
    ["backend"],
    multiprocess_mode="livemax",
)
FLIGHT_WAITS = Counter(
    "toolgate_grammar_waits", "Grammars waited for while someone else compiled them.", ["where"]
)
RECORDS_DROPPED = Counter(
    "toolgate_records_dropped", "Records of the fleet cache that were not believed.", ["reason"]
)
RECORD_BYTES = Histogram(
    "toolgate_record_bytes",
    "Size of the records written to the fleet cache.",
    buckets=(256, 1024, 4096, 16384, 65536, 262144, 1048576),
)
REDIS_ERRORS = Counter("toolgate_redis_errors", "Exchanges with Redis that failed.", ["kind"])
REDIS_BREAKER = Gauge(
    "toolgate_redis_breaker_open",
    "1 while Redis does not answer and is not asked.",
    multiprocess_mode="livemax",
)
BACKEND_UP = Gauge(
    "toolgate_backend_up",
    "1 while a backend answers, 0 while it is out of the rotation.",
    ["backend"],
    multiprocess_mode="livemin",
)
AFFINITY = Counter(
    "toolgate_prefix_affinity",
    "Requests with a long prompt, by where they were sent: to the deployment that its beginning "
    "prefers, or to another since that had too much under way.",
    ["sent"],
)
MOVED = Counter("toolgate_moved", "Requests that went to another backend when one was lost.")
VIOLATIONS = Counter(
    "toolgate_enforcement_violations",
    "Finished calls that broke their schema though the masks hold all of it: a bug, must stay 0.",
)
RESIDUAL_CALLS = Counter(
    "toolgate_residual_calls",
    "Finished calls of tools with keywords that no mask holds, by what the check said.",
    ["verdict"],
)
RESAMPLES = Counter(
    "toolgate_resamples", "Times that a choice was sampled again from before a call."
)
RESAMPLED_TOKENS = Counter(
    "toolgate_resampled_tokens", "Tokens of wrong calls, which the client never saw."
)
KEYS_REDIS_BREAKER = Gauge(
    "toolgate_keys_redis_breaker_open",
    "1 while Redis does not answer about keys and limits and is not asked.",
    multiprocess_mode="livemax",
)
KEYS_REFUSED = Counter(
    "toolgate_keys_refused", "Requests refused for their key, by code.", ["code"]
)
LIMITED = Counter("toolgate_limited", "Requests refused by a key's limits, by limit.", ["limit"])


def exposition() -> bytes:
    """All metrics in Prometheus' text format; those of all workers where they share a folder."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):  # prometheus_client's own variable
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
