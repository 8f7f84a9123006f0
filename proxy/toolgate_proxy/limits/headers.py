"""Rate-limit headers of OpenAI's and Anthropic's APIs.

See platform.openai.com/docs/guides/rate-limits and docs.claude.com/en/api/rate-limits. The headers
are in every response.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..form import RateLimitHeaders
from .counter import AdmissionRequest, AdmissionResult


def headers(
    request: AdmissionRequest, result: AdmissionResult, names: RateLimitHeaders = "openai"
) -> dict[str, str]:
    """Return the headers for the limits of a key."""
    headers: dict[str, str] = {}
    for cost in request.costs:
        if cost.limit is not None:
            name, usage = cost.kind.header, result.usage[cost.kind.name]
            headers[_header(names, name, "limit")] = str(cost.limit)
            headers[_header(names, name, "remaining")] = str(max(0, cost.limit - usage.used))
            if cost.kind.window.type == "sliding":
                reset = duration if names == "openai" else moment
                headers[_header(names, name, "reset")] = reset(usage.reset_ms)
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
