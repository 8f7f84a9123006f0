"""The part of `max_tokens` that reasoning leaves for a required call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolgate_core import wire
from toolgate_core.plan import EnforcementPlan

from ...grammars.call_lengths import CallLengths


def with_room_for_call(
    plan: EnforcementPlan,
    sampling: wire.Sampling,
    lengths: CallLengths,
    keys: Iterable[str],
) -> EnforcementPlan:
    """Return the plan with the number of tokens that earlier calls of the tools with the grammar
    keys `keys` needed. A request that sets the number itself keeps it.

    What was learnt changes with the traffic. Requests with a seed or the temperature 0 do without
    it, so that they always have the same response.
    """
    if plan.choice != "required" or plan.call_tokens is not None:
        return plan
    if sampling.seed is not None or sampling.temperature == 0:
        return plan
    return replace(plan, seen_call_tokens=lengths.usual(keys))
