"""Rate-limit headers of OpenAI's and Anthropic's APIs, and the 429 of a request over a limit.

See platform.openai.com/docs/guides/rate-limits and docs.claude.com/en/api/rate-limits. The headers
are in every response. The wait of `Retry-After` comes from the counter: `ms` of admit.lua, or
memory_counter.py. Other 429s are those of sizes of bodies (key_bounds.py), of wrong keys
(keys/failed_attempts.py) and of LiteLLM (litellm_host/errors.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from toolgate_core.errors import RateLimited

from ..form import RateLimitHeaders
from .reservation import Amount


def rate_limit_headers(
    amounts: Iterable[Amount], names: RateLimitHeaders = "openai"
) -> dict[str, str]:
    """Return the headers for the limits of a key, as its counters have them."""
    headers: dict[str, str] = {}
    for each in amounts:
        if each.limit is not None:
            name = each.kind.header
            headers[_header(names, name, "limit")] = str(each.limit)
            headers[_header(names, name, "remaining")] = str(max(0, each.limit - each.used))
            if each.kind.window.type == "sliding":
                reset = duration if names == "openai" else moment
                headers[_header(names, name, "reset")] = reset(each.reset_ms)
    return headers


def _header(names: RateLimitHeaders, limit: str, value: str) -> str:
    if names == "anthropic":
        return f"anthropic-ratelimit-{limit}-{value}"
    return f"x-ratelimit-{value}-{limit}"


def moment(milliseconds: int) -> str:
    """Write a moment in Anthropic's notation, the time in RFC 3339: `2026-01-01T00:00:30Z`."""
    then = datetime.now(UTC) + timedelta(milliseconds=milliseconds)
    whole = (then + timedelta(milliseconds=999)).replace(microsecond=0)
    return whole.isoformat().replace("+00:00", "Z")


def duration(milliseconds: int) -> str:
    """Write a duration in OpenAI's notation: `120ms`, `7.5s`, `6m0s`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1000:g}s"
    return f"{minutes}m{seconds}" if minutes else seconds


RETRY_AFTER_IN_FLIGHT = 1
"""Seconds to wait for a request in flight, whose end can't be predicted."""


def refusal(alias: str, refused: Amount, wait_ms: int) -> RateLimited:
    """Return the error for a request that was refused. `alias`: of its key; `wait_ms`: as the
    counter replied."""
    kind, limit = refused.kind, refused.limit
    if wait_ms < 0:
        return kind.error(
            f"The request needs up to {refused.amount} {kind.unit.name}, but the limit of the API "
            f"key {alias!r} is {limit} {kind.title}. Shorten the prompt or lower `max_tokens`.",
            limited=kind.unit.error_type,
        )
    seconds = math.ceil(wait_ms / 1000) or RETRY_AFTER_IN_FLIGHT
    used = f"used {refused.used}"
    if refused.amount > 1:
        used += f", requested {refused.amount}"
    return kind.error(
        f"The API key {alias!r} has reached its limit of {limit} {kind.title} ({used}). Try again "
        f"in {seconds} s.",
        limited=kind.unit.error_type,
        retry_after=seconds,
    )
