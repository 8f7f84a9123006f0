"""Failures of a backend (error responses, network errors, time-outs) as Toolgate's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

import aiohttp

from toolgate_core.error_body import from_body, is_ours
from toolgate_core.errors import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    FingerprintMismatch,
    ToolgateError,
)

P = ParamSpec("P")
T = TypeVar("T")
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
UNREACHABLE = "No backend of this model can be reached. Send the request again."
CONNECTION_LOST = "The connection to the backend was lost. Send the request again."
SAME_RELEASE = "Install the same release of toolgate on the gateway and the backend."
RETRY_AFTER = 2
"""Seconds after which a client may retry when a backend could not be reached."""


async def within(work: Awaitable[T], seconds: float, what: str, *, begun: bool = True) -> T:
    """Return the result of a wait on the backend, within a time limit. `what`: what the backend
    does meanwhile, for the error. `begun`: the response has started, so a broken connection loses a
    part of it (BackendLost). Raise BackendTimeout, BackendLost and BackendUnavailable."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except NOT_CONNECTED as error:
        raise BackendUnavailable(UNREACHABLE, retry_after=RETRY_AFTER) from error
    except TimeoutError as error:
        raise BackendTimeout(f"The backend did not {what} in time.") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        lost = BackendLost if begun else BackendUnavailable
        raise lost(CONNECTION_LOST, retry_after=RETRY_AFTER) from error


def unresponsive() -> BackendUnavailable:
    """Return the error for a backend that does not respond, though nothing was asked of it yet."""
    return BackendUnavailable(
        "No backend of this model responds. Send the request again.", retry_after=RETRY_AFTER
    )


class NoReplica(Exception):
    """A server between the gateway and the replicas of an address responded instead of them."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


OF_ROUTERS = (502, 503, 504)
"""Statuses with which servers respond for a replica that left, or has not responded in time."""


def repeats(error: ToolgateError) -> int:
    """Return how often a message is sent again to the same address after an error without any part
    of a response. Another replica may be behind it. A message that a replica may have got is sent
    again once, because it might have crashed that replica."""
    cause = error.__cause__
    if isinstance(cause, NoReplica):
        return 2 if cause.status == 503 else 1
    if isinstance(cause, aiohttp.ClientConnectorError):
        return 2
    broke = isinstance(cause, aiohttp.ClientError | ConnectionError)
    return int(broke and isinstance(error, BackendUnavailable))


def refused_connection(error: ToolgateError) -> bool:
    """Return whether no connection could be made: nothing listens, or the host cannot be found."""
    return isinstance(error.__cause__, NOT_CONNECTED)


def asked_again(ask: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Decorate a function that is called once more if a replica refuses its message: it then has a
    new description of the backend. Raise BackendUnavailable if that is refused, too."""

    @wraps(ask)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(2):
            with suppress(FingerprintMismatch):
                return await ask(*args, **kwargs)
        raise BackendUnavailable(
            "The replicas behind one address of this model differ, so the response cannot be "
            "enforced. Send the request again. If this continues, start all replicas with the same "
            "release, model and flags.",
            retry_after=RETRY_AFTER,
        )

    return asked


def backend_error(status: int, body: object) -> ToolgateError:
    """Return the error of an HTTP response, or of an ErrorEvent in the middle of a stream."""
    error = from_body(status, body)
    # An untyped server error is most likely an engine that died.
    lost = BackendLost(error.message) if type(error) is BackendFailed else error
    if status in OF_ROUTERS and not is_ours(body):
        lost.__cause__ = NoReplica(status)
    return lost
