"""Slots for work that few may do at once, shared fairly among its owners."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """At most `count` slots are taken. One owner has all but one of them at most, so that another
    never waits for the jobs of one owner alone. Owners that wait take turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._most = max(1, count - 1)
        self._taken = Counter[str]()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By owner, the one whose turn is next first."""

    @asynccontextmanager
    async def slot(self, owner: str, seconds: float | None = None) -> AsyncIterator[None]:
        """Wait for a slot, `seconds` at most. Raises TimeoutError."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._assign()
        try:
            async with asyncio.timeout(seconds):
                await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._release(owner)
            else:
                self._leave(owner, turn)

    def _assign(self) -> None:
        """Give free slots to the owners whose turn it is."""
        while self._free:
            may = (each for each in self._waiting if self._taken[each] < self._most)
            if (owner := next(may, None)) is None:
                return
            turn = self._waiting[owner].popleft()
            self._waiting.move_to_end(owner)
            self._forget(owner)
            if turn.done():  # its task was cancelled
                continue
            self._free -= 1
            self._taken[owner] += 1
            turn.set_result(None)

    def _release(self, owner: str) -> None:
        self._free += 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        self._assign()

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting.get(owner, ()):
            self._waiting[owner].remove(turn)
            self._forget(owner)

    def _forget(self, owner: str) -> None:
        if not self._waiting[owner]:
            del self._waiting[owner]
