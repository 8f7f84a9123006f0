"""Why a backend is down, in words for its operator."""

from __future__ import annotations

from toolgate_core.errors import ToolgateError

from ..backend_client.faults import refused_connection

MAX_CAUSE = 200
"""Length of the text."""


def cause_of(error: ToolgateError | TimeoutError) -> str:
    """What failed, for `/toolgate/status`, the log and `toolgate status`."""
    if isinstance(error, TimeoutError):
        return "it does not respond in time"
    if refused_connection(error):
        reason = getattr(error.__cause__, "os_error", None)
        words = getattr(reason, "strerror", None) or "no connection within the time limit"
        return f"connection failed: {words}"[:MAX_CAUSE]
    return error.message[:MAX_CAUSE]
