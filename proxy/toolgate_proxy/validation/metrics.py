"""Prometheus metrics of validation."""

from prometheus_client import Counter

from toolgate_core.metric_series import begin_at_zero

CUSTOM_CALLS = Counter(
    "toolgate_custom_calls",
    "Calls of custom tools that were read again by their grammar, by result: `valid`, `invalid`, "
    "`not_read` (a grammar that RE2 and Lark can't read) or `too_long`.",
    ["result"],
)
begin_at_zero(CUSTOM_CALLS, ("valid", "invalid", "not_read", "too_long"))
