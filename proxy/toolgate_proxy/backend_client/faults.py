"""Failures of a backend as our errors: its answers, the network, and time-outs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import httpx

from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    ToolgateError,
)

UNREACHABLE = "No backend can be reached for this model; try again shortly."
BROKE_OFF = "The connection to the backend broke off."
RETRY_AFTER = 2
"""Seconds after which a client may try again when a backend could not be reached."""


@asynccontextmanager
async def within(seconds: float, what: str, *, begun: bool = True) -> AsyncIterator[None]:
    """Times a wait on the backend and names the network's failures; `begun`: the answer has, so
    what breaks now is lost."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, httpx.WriteTimeout) as error:
        raise BackendTimeout(f"The backend did not {what} in time.") from error
    except (httpx.TransportError, aiohttp.ClientError) as error:
        if begun:
            raise BackendLost(BROKE_OFF, retry_after=RETRY_AFTER) from error
        unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        raise BackendUnavailable(
            UNREACHABLE if unreachable else BROKE_OFF, retry_after=RETRY_AFTER
        ) from error


def backend_error(status: int, body: object) -> ToolgateError:
    """By its HTTP status and JSON body, or by an event in the middle of a stream."""
    error = from_body(status, body)
    # Of a server error that is none of ours, an engine that died is the likeliest cause.
    return BackendLost(error.message) if type(error) is BackendFailed else error
