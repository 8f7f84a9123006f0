"""Failures of a backend (error responses, network errors, time-outs) as Toolgate's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
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
UNREACHABLE = "No backend of this model can be reached. Retry shortly."
CONNECTION_LOST = "The connection to the backend was lost. Retry the request."
SAME_RELEASE = "Install the same release of toolgate on the gateway and the backend."
RETRY_AFTER = 2
"""Seconds after which a client may retry when a backend could not be reached."""


class Within:
    """Async context manager that limits a wait on the backend, and converts network errors.

    Raises BackendTimeout, BackendLost and BackendUnavailable.
    """

    def __init__(self, seconds: float, what: str, *, begun: bool = True) -> None:
        """`what`: what the backend does meanwhile, for the error. `begun`: the response has
        started, so a broken connection loses a part of it (BackendLost)."""
        self._timeout = asyncio.timeout(seconds)
        self._what = what
        self._begun = begun

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            error = expired
        if error is not None and (failure := self._failure(error)) is not None:
            raise failure from error

    def _failure(self, error: BaseException) -> ToolgateError | None:
        if isinstance(error, NOT_CONNECTED):
            return BackendUnavailable(UNREACHABLE, retry_after=RETRY_AFTER)
        if isinstance(error, TimeoutError):
            return BackendTimeout(f"The backend did not {self._what} in time.")
        if not isinstance(error, aiohttp.ClientError | ConnectionError):
            return None
        if self._begun:
            return BackendLost(CONNECTION_LOST, retry_after=RETRY_AFTER)
        return BackendUnavailable(CONNECTION_LOST, retry_after=RETRY_AFTER)


def unresponsive() -> BackendUnavailable:
    """Return the error for a backend that does not respond, though nothing was asked of it yet."""
    return BackendUnavailable(
        "No backend of this model responds. Retry shortly.", retry_after=RETRY_AFTER
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
    """Return whether no connection could be made: nothing listens, or the host can't be found."""
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
            "The replicas behind one address of this model differ, so the response can't be "
            "enforced. Retry shortly. If this continues, start all replicas with the same release, "
            "model and flags.",
            retry_after=RETRY_AFTER,
        )

    return asked


def backend_error(status: int, body: object) -> ToolgateError:
    """Return the error of an HTTP response, or of an ErrorEvent in the middle of a stream."""
    error = from_body(status, body)
    # An untyped server error is most likely an engine that died.
    found = BackendLost(error.message) if type(error) is BackendFailed else error
    if status in OF_ROUTERS and not is_ours(body):
        found.__cause__ = NoReplica(status)
    return found
