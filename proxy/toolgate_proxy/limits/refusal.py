"""The 429 of a request that exceeds a limit of its key.

The wait of `Retry-After` comes from the counter: `ms` of admit.lua, or memory_counter.py. Other
429s are those of sizes of bodies (key_bounds.py), of wrong keys (keys/failed_attempts.py) and of
LiteLLM (litellm_host/errors.py).
"""

from __future__ import annotations

import math

from toolgate_core.errors import RateLimited

from .counter import AdmissionResult, Cost

RETRY_AFTER_IN_FLIGHT = 1
"""Seconds to wait for a request in flight, whose end can't be predicted."""


def refusal(alias: str, refused: Cost, result: AdmissionResult) -> RateLimited:
    """Return the error for a request that was refused. `alias`: of its key."""
    kind, limit = refused.kind, refused.limit
    if result.wait_ms < 0:
        return kind.error(
            f"The request needs up to {refused.amount} {kind.unit.name}, but the limit of the API "
            f"key {alias!r} is {limit} {kind.title}. Shorten the prompt or lower `max_tokens`.",
            limited=kind.unit.error_type,
        )
    seconds = math.ceil(result.wait_ms / 1000) or RETRY_AFTER_IN_FLIGHT
    used = f"used {result.usage[kind.name].used}"
    if refused.amount > 1:
        used += f", requested {refused.amount}"
    return kind.error(
        f"The API key {alias!r} has reached its limit of {limit} {kind.title} ({used}). Try again "
        f"in {seconds} s.",
        limited=kind.unit.error_type,
        retry_after=seconds,
    )
