"""Rate limits as OpenAI tells them (platform.openai.com/docs/guides/rate-limits): in headers of
every answer, and in the error of one that is refused."""

from __future__ import annotations

import math

from toolgate_core.errors import QuotaExceeded, RateLimited

from ..keys.key import Key
from .counter import AdmissionRequest, AdmissionResult

PARALLEL_RETRY_AFTER = 1
"""Seconds; when a request in flight will end nobody knows."""


def headers(key: Key, counted: AdmissionResult) -> dict[str, str]:
    """For the limits that the key has."""
    told: dict[str, str] = {}
    for unit, limit, use in (
        ("requests", key.limits.rpm, counted.requests),
        ("tokens", key.limits.tpm, counted.tokens),
    ):
        if limit is not None:
            told[f"x-ratelimit-limit-{unit}"] = str(limit)
            told[f"x-ratelimit-remaining-{unit}"] = str(max(0, limit - use.used))
            told[f"x-ratelimit-reset-{unit}"] = duration(use.reset_ms)
    if (limit := key.limits.max_parallel_requests) is not None:
        told["x-ratelimit-limit-parallel-requests"] = str(limit)
        told["x-ratelimit-remaining-parallel-requests"] = str(max(0, limit - counted.parallel))
    if (limit := key.limits.tokens_per_day) is not None:
        told["x-ratelimit-limit-tokens-day"] = str(limit)
        told["x-ratelimit-remaining-tokens-day"] = str(max(0, limit - counted.tokens_today))
    return told


def refusal(key: Key, ask: AdmissionRequest, counted: AdmissionResult) -> RateLimited:
    """The error for a request that was not let in."""
    limits = key.limits
    whose = f"of the key {key.alias!r}"
    match counted.refused:
        case "requests":
            said, limited = f"requests per minute {whose}: limit {limits.rpm}", "requests"
            said += f", used {counted.requests.used}"
        case "tokens":
            said, limited = f"tokens per minute {whose}: limit {limits.tpm}", "tokens"
            said += f", used {counted.tokens.used}, requested {ask.tokens}"
        case "tokens_per_day":
            said, limited = f"tokens per day {whose}: limit {limits.tokens_per_day}", "tokens"
            said += f", used {counted.tokens_today}, requested {ask.tokens}"
        case _:
            said, limited = f"requests at once {whose}", "requests"
            said += f": limit {limits.max_parallel_requests}"
    kind = QuotaExceeded if counted.refused == "tokens_per_day" else RateLimited
    if counted.wait_ms < 0:
        return kind(
            f"This request is larger than the limit on {said}. Send a smaller one, or a smaller "
            "`max_tokens`.",
            limited=limited,
        )
    seconds = math.ceil(counted.wait_ms / 1000) or PARALLEL_RETRY_AFTER
    return kind(
        f"Reached the limit on {said}. Try again in {seconds} s.",
        limited=limited,
        retry_after=seconds,
    )


def duration(milliseconds: int) -> str:
    """As OpenAI writes one: `120ms`, `7.5s`, `6m0s`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1000:g}s"
    return f"{minutes}m{seconds}" if minutes else seconds
