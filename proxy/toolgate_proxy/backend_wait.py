"""Waits on a backend: timed, and the network's failures named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import httpx

from toolgate_core.errors import BackendLost, BackendTimeout, BackendUnavailable

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
