"""Failures of a backend (error responses, network errors, time-outs) as Toolgate's errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    ToolgateError,
)

UNREACHABLE = "No backend of this model can be reached. Retry shortly."
UNRESPONSIVE = "No backend of this model responds. Retry shortly."
CONNECTION_LOST = "The connection to the backend was lost. Retry the request."
SAME_RELEASE = "Install the same release of toolgate on the gateway and the backend."
RETRY_AFTER = 2
"""Seconds after which a client may retry when a backend could not be reached."""


@asynccontextmanager
async def within(seconds: float, what: str, *, begun: bool = True) -> AsyncIterator[None]:
    """Limit a wait on the backend to `seconds`, and convert network errors.

    `begun`: the response has started, so a broken connection loses a part of it (BackendLost).
    Raises BackendTimeout, BackendLost and BackendUnavailable.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except aiohttp.ConnectionTimeoutError as error:
        raise BackendUnavailable(UNREACHABLE, retry_after=RETRY_AFTER) from error
    except TimeoutError as error:
        raise BackendTimeout(f"The backend did not {what} in time.") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        if begun:
            raise BackendLost(CONNECTION_LOST, retry_after=RETRY_AFTER) from error
        unreachable = isinstance(error, aiohttp.ClientConnectorError)
        raise BackendUnavailable(
            UNREACHABLE if unreachable else CONNECTION_LOST, retry_after=RETRY_AFTER
        ) from error


def refused_connection(error: ToolgateError) -> bool:
    """Return whether no connection could be made: nothing listens, or the host can't be found."""
    cause = error.__cause__
    return isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def lost_connection(error: ToolgateError) -> bool:
    """Return whether an established connection broke before any response. Most likely the backend
    closed an idle connection while the request was sent on it, so the same backend can be tried
    again."""
    broke = isinstance(error.__cause__, aiohttp.ClientError | ConnectionError)
    return isinstance(error, BackendUnavailable) and broke and not refused_connection(error)


def backend_error(status: int, body: object) -> ToolgateError:
    """Return the error of an HTTP response, or of an ErrorEvent in the middle of a stream."""
    error = from_body(status, body)
    # An untyped server error is most likely an engine that died.
    return BackendLost(error.message) if type(error) is BackendFailed else error
