"""Why a backend is down, in words for its operator."""

from __future__ import annotations

import os

from toolgate_core.errors import ToolgateError

from ..backend_client.faults import refused_connection

MAX_CAUSE = 200
"""Length of the text."""


def cause_of(error: ToolgateError | TimeoutError) -> str:
    """What failed, for `/toolgate/status`, the log and `toolgate status`."""
    if isinstance(error, TimeoutError):
        return "it does not respond in time"
    if refused_connection(error):
        words = _words(getattr(error.__cause__, "os_error", None))
        return f"connection failed: {words}"[:MAX_CAUSE]
    return error.message[:MAX_CAUSE]


def _words(reason: OSError | None) -> str:
    """asyncio replaces the system's text by "Connect call failed". Errors of names have numbers
    below zero, and a text of their own."""
    number = getattr(reason, "errno", None) or 0
    words = os.strerror(number) if number > 0 else getattr(reason, "strerror", None)
    return words or (str(reason) if reason else "no connection within the time limit")
