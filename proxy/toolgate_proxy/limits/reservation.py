"""What one request counts for the limits of its key, the interface of the counters, and what a
response says of them: rate-limit headers of OpenAI's and Anthropic's APIs, and the 429.

See platform.openai.com/docs/guides/rate-limits and docs.claude.com/en/api/rate-limits. The headers
are in every response. The wait of `Retry-After` comes from the counter: `ms` of admit.lua, or
counters.py. Other 429s are those of sizes of bodies (key_bounds.py), of wrong keys
(keys/access.py) and of LiteLLM (litellm_host/errors.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from toolgate_core.errors import RateLimited

from ..keys.key import Limits
from ..keys.limit_kinds import KINDS, LimitKind, Tokens

RateLimitHeaders = Literal["openai", "anthropic"]
"""Whose names the rate-limit headers have."""


@dataclass(slots=True)
class Amount:
    """What a request counts for one limit of its key, and what the counter of the limit has."""

    kind: LimitKind
    limit: int | None
    """None: it is counted without a limit."""
    amount: int
    """Of a correction: below 0 if less was used than reserved."""
    period: int = 0
    """Slice of a sliding window, or number of a fixed window, that it is counted in."""
    used: int = 0
    """All that the counter has after the request was admitted or refused."""
    reset_ms: int = 0
    """Milliseconds until none of it counts any more; 0 without use, and for requests in flight."""


@dataclass(slots=True)
class Reservation:
    """What a request counts for all limits of its key: at its admission, so far, or in one
    correction of what it was counted with."""

    key_id: str
    request_id: str
    amounts: tuple[Amount, ...]
    ended: bool = False
    """The request has ended. A correction then releases its place among the requests in flight,
    which it renews otherwise."""
    refused: Amount | None = None
    """The first limit that was exceeded, so that nothing was counted."""
    wait_ms: int = 0
    """Milliseconds until the request would be admitted if no other came; -1 if it exceeds the limit
    alone; 0 if that depends on when other requests end."""

    def add(self, amounts: Iterable[Amount], sign: int = 1) -> None:
        """Add what was counted in addition."""
        more = {amount.kind.name: sign * amount.amount for amount in amounts}
        for amount in self.amounts:
            amount.amount += more.get(amount.kind.name, 0)

    def correction(self, used: Tokens) -> tuple[Amount, ...]:
        """Return what the counters lack. `used`: the tokens so far. Before the request has ended,
        what was reserved is not returned."""
        amounts: list[Amount] = []
        for amount in self.amounts:
            in_flight = amount.kind.window.type == "in_flight"
            lacking = 0 if in_flight else amount.kind.unit.amount(used) - amount.amount
            if in_flight or lacking > 0 or (lacking and self.ended):
                amounts.append(Amount(amount.kind, None, lacking, amount.period))
        return tuple(amounts)


class Unavailable(Exception):
    """The counter did not count."""

    reason = ""
    """For clients and logs."""


class NoResponse(Unavailable):
    """The counter did not respond, so it is not known whether it has counted."""

    reason = "Redis does not respond"


class CommandRefused(Unavailable):
    """Redis responded with an error: a counter of a wrong type, out of memory, read only … Its text
    can contain names of entries, which clients must not see."""

    reason = "Redis refused the command"


class Counter(Protocol):
    async def admit(self, request: Reservation) -> None:
        """Count the request if all limits allow it, and nothing otherwise. Note in it which limit
        refused, and what each counter has. Raise Unavailable."""

    async def correct(self, correction: Reservation) -> None:
        """Add the amounts to the counters. Raise Unavailable."""


def amounts(limits: Limits, tokens: Tokens) -> tuple[Amount, ...]:
    """Return what a request with that many tokens counts for a key that has limits."""
    return tuple(
        Amount(kind, limit, kind.unit.amount(tokens))
        for kind in KINDS
        if (limit := limits.of(kind)) is not None or kind.counted_for != "keys with this limit"
    )


def rate_limit_headers(
    amounts: Iterable[Amount], names: RateLimitHeaders = "openai"
) -> dict[str, str]:
    """Return the headers for the limits of a key, as its counters have them."""
    headers: dict[str, str] = {}
    for amount in amounts:
        if amount.limit is not None:
            name = amount.kind.header
            headers[_header(names, name, "limit")] = str(amount.limit)
            headers[_header(names, name, "remaining")] = str(max(0, amount.limit - amount.used))
            if amount.kind.window.type == "sliding":
                reset = duration if names == "openai" else moment
                headers[_header(names, name, "reset")] = reset(amount.reset_ms)
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
"""Seconds to wait for a request in flight, whose end cannot be predicted."""


def refusal(alias: str, refused: Amount, wait_ms: int) -> RateLimited:
    """Return the error for a refused request. `alias`: of its key; `wait_ms`: the counter's."""
    kind, limit = refused.kind, refused.limit
    if wait_ms < 0:
        return kind.error(
            f"The request needs up to {refused.amount} {kind.unit.name}, but the limit of the API "
            f"key {alias!r} is {limit} {kind.title}. Shorten the prompt or lower 'max_tokens'.",
            limited=kind.unit.error_type,
        )
    seconds = math.ceil(wait_ms / 1000) or RETRY_AFTER_IN_FLIGHT
    used = f"used {refused.used}"
    if refused.amount > 1:
        used += f", requested {refused.amount}"
    return kind.error(
        f"The API key {alias!r} has reached its limit of {limit} {kind.title} ({used}). Send the "
        f"request again in {seconds} s.",
        limited=kind.unit.error_type,
        retry_after=seconds,
    )
