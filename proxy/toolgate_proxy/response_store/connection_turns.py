"""The latest conversation of a WebSocket connection, which needs no store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .record import StoredResponse


class Conversations:
    """Those of all connections of this process. The ones of a key are bounded together."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of the conversations of one key: of their messages and response objects."""
        self._max_bytes = max_bytes
        self._of_key: defaultdict[str, list[ConnectionTurns]] = defaultdict(list)

    @contextmanager
    def connection(self, key: str | None) -> Iterator[ConnectionTurns]:
        """Open the conversation of a connection. `key`: an id; None for a connection that is
        bounded by itself."""
        together = [] if key is None else self._of_key[key]
        turns = ConnectionTurns(self._max_bytes, together)
        together.append(turns)
        try:
            yield turns
        finally:
            together.remove(turns)
            if key is not None and not together:
                del self._of_key[key]


@dataclass(eq=False)
class ConnectionTurns:
    """The latest response of a connection and those that it continues, the oldest first. They can
    be continued on this connection also if they have `store: false`."""

    max_bytes: int
    """Maximum size of the conversations that are bounded together."""
    together: list[ConnectionTurns]
    """These conversations, with this one; the one that was not used for longest is the first."""
    turns: list[StoredResponse] = field(default_factory=list)
    size: int = 0

    def keep(self, turn: StoredResponse) -> None:
        """Add a response that has ended. A conversation that it does not continue is dropped."""
        if not self.turns or turn.previous != self.turns[-1].id:
            self.forget()
        self.turns.append(turn)

    def grow(self, size: int) -> None:
        """Count `size`: bytes of the last response and of its request. Above the maximum,
        conversations that were not used for long are forgotten."""
        self.size += size
        self.together.remove(self)
        self.together.append(self)
        excess = sum(each.size for each in self.together) - self.max_bytes
        for each in self.together:
            if excess > 0:
                excess -= each.size
                each.forget()

    def forget(self) -> None:
        self.turns, self.size = [], 0

    def before(self, previous: str) -> Sequence[StoredResponse]:
        """Return the responses that a request continues by `previous_response_id`; empty if it is
        not the latest response."""
        return self.turns if self.turns and self.turns[-1].id == previous else ()

    def find(self, response_id: str) -> StoredResponse | None:
        return next((turn for turn in self.turns if turn.id == response_id), None)

    def items(self) -> list[Any]:
        return [item for turn in self.turns for item in turn.items]
