"""Prometheus metrics of requests: their number, times and tokens."""

from __future__ import annotations

from typing import get_args

from prometheus_client import Counter, Gauge, Histogram

from toolgate_core.chat_request import Change
from toolgate_core.metric_series import begin_at_zero

WHOLE_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
FIRST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

REQUESTS = Counter(
    "toolgate_requests",
    "Requests with a model, by model, alias of the API key (`master` for the master key, `none` "
    "without a valid key), API (`surface`) and HTTP status. `status` is `stream_error` if a stream "
    "ended with an error event, and `disconnected` if the client left before the end. Names of "
    "unknown models, and names and aliases above 200 per process, are `other`.",
    ["model", "key", "surface", "status"],
)
FAILED = Counter(
    "toolgate_failed_requests",
    "Requests with a model whose status is 500 or more, or `stream_error`, by model. Each "
    "configured model has its series from the start.",
    ["model"],
)
HOSTED_TOOL, INVALID_TOOL = "hosted_tool", "invalid_tool"
OMISSIONS = Counter(
    "toolgate_omissions",
    "Requests of which the model did not see all as it was sent, by what: `hosted_tool`, "
    "`invalid_tool` (with `TOOLGATE_INVALID_TOOLS=omit`), or a change to the history as in the "
    "header `x-toolgate-history`. A request counts once for each value.",
    ["what"],
)
begin_at_zero(OMISSIONS, (HOSTED_TOOL, INVALID_TOOL, *get_args(Change)))
IN_FLIGHT = Gauge(
    "toolgate_requests_in_flight",
    "POST requests that are being processed, by API (`surface`).",
    ["surface"],
    multiprocess_mode="livesum",
)
SECONDS = Histogram(
    "toolgate_request_seconds",
    "Time from the arrival of a request until the end of its response. Only responses without an "
    "error.",
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
    "Mean time between output tokens of one streamed response, from its first to its last event. "
    "One value per response.",
    ["model", "surface"],
    buckets=TOKEN_SECONDS,
)
TOKENS = Counter(
    "toolgate_tokens",
    "Tokens of prompts (`input`) and of responses (`output`). For other providers' models they are "
    "those that LiteLLM reports.",
    ["model", "surface", "direction"],
)
