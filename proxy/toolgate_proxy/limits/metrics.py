"""Prometheus metrics of the limits of keys."""

from __future__ import annotations

from prometheus_client import Counter

from toolgate_core.metric_series import begin_at_zero

from ..keys.limit_kinds import KINDS

LIMITED = Counter(
    "toolgate_limited",
    "Requests refused by a limit of their API key, by the limit's label.",
    ["limit"],
)
begin_at_zero(LIMITED, [kind.label for kind in KINDS])
