"""OpenAI's rate-limit headers, and the error for a request that exceeds a limit.

See platform.openai.com/docs/guides/rate-limits. The headers are in every response.
"""

from __future__ import annotations

import math

from toolgate_core.errors import RateLimited

from .counter import AdmissionRequest, AdmissionResult, Cost

RETRY_AFTER_IN_FLIGHT = 1
"""Seconds to wait for a request in flight, whose end can't be predicted."""


def headers(request: AdmissionRequest, result: AdmissionResult) -> dict[str, str]:
    """Headers for the limits of a key."""
    headers: dict[str, str] = {}
    for cost in request.costs:
        if cost.limit is not None:
            name, usage = cost.kind.header, result.usage[cost.kind.name]
            headers[f"x-ratelimit-limit-{name}"] = str(cost.limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(max(0, cost.limit - usage.used))
            if cost.kind.window.type == "sliding":
                headers[f"x-ratelimit-reset-{name}"] = duration(usage.reset_ms)
    return headers


def refusal(alias: str, refused: Cost, result: AdmissionResult) -> RateLimited:
    """The error for a request that was refused. `alias`: of its key."""
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


def duration(milliseconds: int) -> str:
    """OpenAI's notation: `120ms`, `7.5s`, `6m0s`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1000:g}s"
    return f"{minutes}m{seconds}" if minutes else seconds
