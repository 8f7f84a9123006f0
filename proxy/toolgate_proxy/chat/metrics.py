"""Prometheus metrics of chat completions: failover, validation of calls, resampling."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from toolgate_core.metric_series import begin_at_zero

FAILOVERS = Counter(
    "toolgate_moved",
    "Requests that were sent to another backend or replica, because the first one failed.",
)
VIOLATIONS = Counter(
    "toolgate_enforcement_violations",
    "Completed calls that violate their schema although masks enforce all of it: alert on any.",
)
RESIDUAL_CALLS = Counter(
    "toolgate_residual_calls",
    "Completed calls of tools with keywords that masks cannot enforce, by validation: `valid` or "
    "`invalid`.",
    ["verdict"],
)
begin_at_zero(RESIDUAL_CALLS, ("valid", "invalid"))
REPETITIONS = Counter(
    "toolgate_repetitions",
    "Choices that were cut because a call, or formatted content, repeats itself.",
)
RESAMPLES = Counter(
    "toolgate_resamples",
    "Choices that were sampled again because a call was invalid, from before the `call`, or the "
    "invalid `value` in it.",
    ["before"],
)
begin_at_zero(RESAMPLES, ("call", "value"))
GIVEN_UP = Counter(
    "toolgate_given_up_calls",
    "Calls that ended in an error because every attempt violated a keyword that masks cannot "
    "enforce.",
)
RESAMPLED_TOKENS = Counter(
    "toolgate_resampled_tokens",
    "Tokens of invalid calls that were discarded before the client saw them.",
)
TOOL_CALLS = Counter(
    "toolgate_tool_calls",
    "Calls of tools that the gateway ran, by kind (`mcp`, `search`, `fetch`, `tool_search`), MCP "
    "server or search tool, and result: `ok`, `error`, `timeout`, `refused` (by a limit or "
    "guardrail) or `cancelled` (the client left).",
    ["kind", "server", "result"],
)
TOOL_SECONDS = Histogram(
    "toolgate_tool_seconds",
    "Time of one call of a tool that the gateway ran, by kind and server.",
    ["kind", "server"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60),
)
