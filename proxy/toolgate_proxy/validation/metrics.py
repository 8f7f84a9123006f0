"""Prometheus metrics of validation."""

from prometheus_client import Counter

CUSTOM_CALLS = Counter(
    "toolgate_custom_calls",
    "Calls of custom tools that were read again by their grammar, by result: `valid`, `invalid`, "
    "`not_read` (a grammar that Python and Lark can't read) or `too_long`.",
    ["result"],
)
