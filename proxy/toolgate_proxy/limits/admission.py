"""Admits a request under the limits of its key, and sets tokens aside for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import RateLimited

from ..context import RequestContext
from ..state import GatewayState
from .estimate import tokens


async def reserve(
    here: GatewayState, context: RequestContext, body: Mapping[str, Any], *, output: bool = True
) -> None:
    """`body`: as the client sent it; `output`: whether the response has tokens. Sets the headers of
    rate limits. Raises RateLimited and LimitsUnavailable."""
    key = context.key
    if key is None or context.admitted:
        return  # the master key's requests have no limits
    if key.limits.any:
        guess = here.settings.limit_output_estimate
        context.reserved_tokens = tokens(body, key.limits, guess, output=output)
    try:
        admission = await here.limiter.admit(
            key, context.call_id or "", context.reserved_tokens, context.used_tokens
        )
    except RateLimited as error:
        context.extra_headers |= error.headers
        if error.retry_after is None:
            context.extra_headers["x-should-retry"] = "false"  # OpenAI's SDKs heed it
        raise
    context.admitted = True
    context.extra_headers |= admission.headers
    entry, reservations = admission.entry, here.limiter.reservations

    context.on_settle = lambda: reservations.close(entry)
