"""The form of one API's errors and headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from toolgate_core.errors import ToolgateError

RateLimitHeaders = Literal["openai", "anthropic"]
"""Whose names the rate-limit headers have."""


class Form(Protocol):
    """The form of one API's errors and headers."""

    rate_limits: RateLimitHeaders
    """Whose names the rate-limit headers have."""
    request_id_header: str | None
    """A further name of the header `x-request-id` in responses."""

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        """Return the body of an error response to a request that was not read. `request_id`: the
        value of `x-request-id`."""

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        """Return the event that reports an error in a stream that has no other events. `shown` is
        what `error` returned."""
