"""What a backend answers instead of an answer, as our errors."""

from __future__ import annotations

from toolgate_core.error_body import from_body
from toolgate_core.errors import BackendFailed, BackendLost, ToolgateError


def told(status: int, body: object) -> ToolgateError:
    """By its HTTP status and JSON body, or by an event in the middle of a stream."""
    error = from_body(status, body)
    # Of a server error that is none of ours, an engine that died is the likeliest cause.
    return BackendLost(error.message) if type(error) is BackendFailed else error
