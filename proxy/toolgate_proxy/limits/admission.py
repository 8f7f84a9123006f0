"""Admits a request under the limits of its key, and reserves tokens for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import RateLimited

from ..context import RequestContext
from .estimate import estimate
from .limiter import Limiter


async def reserve(
    limiter: Limiter, context: RequestContext, body: Mapping[str, Any], *, output: bool = True
) -> None:
    """Set the rate-limit headers. `body`: as the client sent it; `output`: whether the response has
    output tokens. Raises RateLimited and LimitsUnavailable."""
    key = context.key
    if key is None:  # the master key has no limits
        context.release_body()
        return
    if context.admitted:
        return
    if key.limits.any:
        context.reserved_tokens = estimate(body, key.limits, limiter.output_estimate, output=output)
    try:
        admission = await limiter.admit(
            key,
            context.call_id or "",
            context.reserved_tokens,
            context.used_tokens,
            context.rate_limits,
        )
    except RateLimited as error:
        _note_refusal(context, error)
        raise
    context.admitted = True
    context.release_body()
    context.extra_headers |= admission.headers
    reservation, reservations = admission.reservation, limiter.reservations

    async def admit_prompt(prompt: int) -> None:
        try:
            await limiter.admit_prompt(key, reservation, context.reserved_tokens, prompt)
        except RateLimited as error:
            _note_refusal(context, error)
            raise

    context.on_settle = lambda: reservations.close(reservation)
    if key.limits.counts_output:
        context.on_prompt = admit_prompt


def _note_refusal(context: RequestContext, error: RateLimited) -> None:
    context.extra_headers |= error.headers
    if error.retry_after is None:
        context.extra_headers["x-should-retry"] = "false"  # read by OpenAI's SDKs
