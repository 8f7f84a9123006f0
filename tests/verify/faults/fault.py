"""A fault: a change to what the reference server does in one scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.verify.reference_server.app import Reply as Sent
    from tests.verify.reference_server.asked import Asked
    from tests.verify.reference_server.reply import Reply


def _nothing(*_: Any) -> None:
    """No change."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Fault:
    asked: Callable[[Asked], object] = _nothing
    """Changes the request as the server understands it."""
    reply: Callable[[Reply, Asked], object] = _nothing
    """Changes the answer before it has the form of an API."""
    body: Callable[[Any], Any] = _same
    """Returns the body of a whole answer."""
    events: Callable[[list[tuple[str, Any]]], list[tuple[str, Any]]] = _same
    """Returns the events of a stream."""
    error: Callable[[Any], Any] = _same
    """Returns the body of an error."""
    state: Callable[[Any, Sent], Sent] = lambda _, sent: sent
    """Returns the answer of an operation on a stored response."""
    sent: Callable[[Sent, int], Sent] = lambda sent, _: sent
    """Returns the HTTP response; the number is that of the request."""
    accepts: bool = False
    """Whether the server answers requests that it should refuse."""
