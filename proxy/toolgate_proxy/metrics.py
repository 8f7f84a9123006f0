"""Prometheus metrics of the gateway, except those of chat completions (`chat/metrics.py`)."""

from __future__ import annotations

import math
import os
from typing import get_args

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from toolgate_core.errors import (
    InvalidKey,
    KeysUnavailable,
    PermissionDenied,
    SchemaNotEnforceable,
    SchemaTooComplex,
    TooManyWrongKeys,
)
from toolgate_core.metric_series import begin_at_zero

from .request.chat_request import Change


def _breaker(name: str, use: str) -> Gauge:
    text = f"1 while the Redis connection for {use} is down, otherwise 0."
    return Gauge(name, text, multiprocess_mode="livemax")


GRAMMARS = Counter(
    "toolgate_grammars",
    "Grammars that requests needed, by verdict: `known` (to this process or in Redis) or `new` "
    "(it came with the response).",
    ["verdict"],
)
begin_at_zero(GRAMMARS, ("known", "new"))
GRAMMARS_REFUSED = Counter(
    "toolgate_grammars_refused",
    "Tool schemas that a backend refused to compile, by error code.",
    ["code"],
)
begin_at_zero(GRAMMARS_REFUSED, (SchemaNotEnforceable.code, SchemaTooComplex.code))
RESENT = Counter(
    "toolgate_resent",
    "Messages that were sent again to the same backend address, because a replica or router "
    "failed before the response.",
)
RECORDS_DROPPED = Counter(
    "toolgate_records_dropped",
    "Grammar records in Redis that were changed, or sealed with another secret.",
)
KEYS_REFUSED = Counter(
    "toolgate_keys_refused", "Requests refused because of their API key, by error code.", ["code"]
)
REFUSALS = (InvalidKey, KeysUnavailable, PermissionDenied, TooManyWrongKeys)
begin_at_zero(KEYS_REFUSED, [each.code for each in REFUSALS])
KEYS_BREAKER = _breaker("toolgate_keys_redis_breaker_open", "keys and limits")
LIMITED = Counter(
    "toolgate_limited",
    "Requests refused by a limit of their API key, by the limit's label.",
    ["limit"],
)

REASONING_TURNS = Counter(
    "toolgate_kept_reasoning",
    "Turns with reasoning and calls: `kept`, `restored`, or `missing` if a client sent one back "
    "without its reasoning and none was found.",
    ["result"],
)
begin_at_zero(REASONING_TURNS, ("kept", "restored", "missing"))
REASONING_BREAKER = _breaker("toolgate_kept_reasoning_redis_breaker_open", "kept reasoning")
RESPONSES_STORED = Counter(
    "toolgate_responses_stored",
    "Responses by result: `stored`, `unavailable`, `too_large`, `exists` or `disabled`.",
    ["result"],
)
begin_at_zero(RESPONSES_STORED, ("stored", "unavailable", "too_large", "exists", "disabled"))
RESPONSES_DROPPED = Counter(
    "toolgate_responses_dropped",
    "Stored responses that were dropped at the quota of their key or team.",
)
RESPONSES_BROKEN = Counter(
    "toolgate_responses_broken",
    "Records of responses that were changed, or sealed with another secret.",
)
RESPONSES_BREAKER = _breaker("toolgate_responses_redis_breaker_open", "stored responses")
REDIS_ERRORS = Counter(
    "toolgate_redis_errors",
    "Redis commands that failed: `refused` (an error reply), `timeout` or `connection`.",
    ["kind"],
)
begin_at_zero(REDIS_ERRORS, ("refused", "timeout", "connection"))
GRAMMARS_BREAKER = _breaker("toolgate_redis_breaker_open", "grammars")
REDIS_SECONDS = Histogram(
    "toolgate_redis_seconds",
    "Time of one exchange with Redis, with the wait for a connection or the time limit.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
BACKEND_UP = Gauge(
    "toolgate_backend_up",
    "1 while a backend passes its health probes, otherwise 0, by URL.",
    ["backend"],
    multiprocess_mode="livemin",
)
AFFINITY = Counter(
    "toolgate_prefix_affinity",
    "Requests with a long prompt or a `prompt_cache_key` that were sent to the deployment with "
    "the cached prefix (`preferred`), or to another because that one was at capacity (`other`).",
    ["sent"],
)
begin_at_zero(AFFINITY, ("preferred", "other"))
CUSTOM_CALLS = Counter(
    "toolgate_custom_calls",
    "Calls of custom tools that were read again: `valid`, `invalid`, `not_read` (RE2 and Lark "
    "cannot read the grammar) or `too_long`.",
    ["result"],
)
begin_at_zero(CUSTOM_CALLS, ("valid", "invalid", "not_read", "too_long"))

WHOLE_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
FIRST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

REQUESTS = Counter(
    "toolgate_requests",
    "Requests by model, alias of the API key (`master`, or `none` without a valid key), API "
    "(`surface`) and HTTP status, or `stream_error`, or `disconnected` if the client left. "
    "Unknown models, and names above 200 per process, are `other`.",
    ["model", "key", "surface", "status"],
)
FAILED = Counter(
    "toolgate_failed_requests",
    "Requests with a model whose status is 500 or more, or `stream_error`.",
    ["model"],
)
HOSTED_TOOL, INVALID_TOOL = "hosted_tool", "invalid_tool"
OMISSIONS = Counter(
    "toolgate_omissions",
    "Requests of which the model did not see all, by what: `hosted_tool`, `invalid_tool`, or a "
    "change as in the header `x-toolgate-history`. A request counts once for each.",
    ["what"],
)
begin_at_zero(OMISSIONS, (HOSTED_TOOL, INVALID_TOOL, *get_args(Change)))
IN_FLIGHT = Gauge(
    "toolgate_requests_in_flight",
    "POST requests that are being processed, by API.",
    ["surface"],
    multiprocess_mode="livesum",
)
SECONDS = Histogram(
    "toolgate_request_seconds",
    "Time from the arrival of a request to the end of a response without an error.",
    ["model", "surface"],
    buckets=WHOLE_SECONDS,
)
FIRST_TOKEN_SECONDS = Histogram(
    "toolgate_first_token_seconds",
    "Time from the arrival of a streamed request until its first event with output, also of other "
    "providers.",
    ["model", "surface"],
    buckets=FIRST_SECONDS,
)
INTER_TOKEN_SECONDS = Histogram(
    "toolgate_inter_token_seconds",
    "Mean time between output tokens of one streamed response, from its first to its last event.",
    ["model", "surface"],
    buckets=TOKEN_SECONDS,
)
TOKENS = Counter(
    "toolgate_tokens",
    "Tokens of prompts (`input`) and of responses (`output`), for other providers' models as "
    "LiteLLM reports them.",
    ["model", "surface", "direction"],
)


def forget(gauge: Gauge, backend: str) -> None:
    """Remove the series of a backend that has left. Where processes share their metrics, none can
    be removed: it becomes NaN, which no alert matches."""
    gauge.labels(backend).set(math.nan)
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        gauge.remove(backend)


def exposition() -> bytes:
    """Return all metrics of this process, or of all worker processes that share a metrics folder,
    in Prometheus' text format.

    Each package that has metrics defines them in its module `metrics`, in the default registry of
    prometheus_client. LiteLLM's own /metrics therefore shows them too, where it is enabled."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):  # prometheus_client's own variable
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
