"""The latest conversation of a WebSocket connection, which needs no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .record import StoredResponse


@dataclass
class ConnectionTurns:
    """The latest response of a connection and those that it continues, the oldest first. They can
    be continued on this connection also if they have `store: false`."""

    max_bytes: int
    """Maximum size of the conversation: of its messages and of its response objects."""
    turns: list[StoredResponse] = field(default_factory=list)
    _size: int = 0

    def keep(self, turn: StoredResponse) -> None:
        """Adds a response that has ended. A conversation that it does not continue is dropped."""
        if not self.turns or turn.previous != self.turns[-1].id:
            self.forget()
        self.turns.append(turn)

    def grow(self, size: int) -> None:
        """`size`: bytes of the last response and of its request."""
        self._size += size
        if self._size > self.max_bytes:
            self.forget()

    def forget(self) -> None:
        self.turns, self._size = [], 0

    def before(self, previous: str) -> Sequence[StoredResponse]:
        """The responses that a request continues by `previous_response_id`; empty if it is not the
        latest response."""
        return self.turns if self.turns and self.turns[-1].id == previous else ()

    def find(self, response_id: str) -> StoredResponse | None:
        return next((turn for turn in self.turns if turn.id == response_id), None)

    def items(self) -> list[Any]:
        return [item for turn in self.turns for item in turn.items]
