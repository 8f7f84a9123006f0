"""Sealed responses in the memory of this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from .. import metrics
from ..settings import Settings
from .record import RESPONSE_MAX_BYTES, Kept, NotStored, SealedResponse

MEMORY_BYTES = 64_000_000
"""Maximum size of all responses that a process stores. Who needs more has Redis."""


@dataclass
class _Owned:
    """One owner's responses, the least recently used first, each with its time of expiry."""

    responses: OrderedDict[str, tuple[SealedResponse, float]] = field(default_factory=OrderedDict)
    size: int = 0

    def find(self, response_id: str) -> SealedResponse | None:
        found = self.responses.get(response_id)
        if found is None:
            return None
        if found[1] <= time.monotonic():
            self.drop(response_id)
            return None
        self.responses.move_to_end(response_id)
        return found[0]

    def drop(self, response_id: str) -> None:
        self.size -= len(self.responses.pop(response_id)[0].record)


class MemoryResponses:
    """At most `MEMORY_BYTES`. Evicts from the least recently active owner first."""

    kept: Kept = "process"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._owners: OrderedDict[str, _Owned] = OrderedDict()

    @property
    def _size(self) -> int:
        return sum(owned.size for owned in self._owners.values())

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        reason = self._refusal(response)
        if reason is None and self._of(owner).find(response.id) is not None:
            return "exists"
        if reason is None:
            self._store(owner, response)
        return reason

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        owned, wanted = self._of(owner), response_id
        found: list[bytes] = []
        while len(found) < most and (response := owned.find(wanted)) is not None:
            size -= len(response.record)
            found.append(response.record if size >= 0 else b"")
            if size < 0 or response.previous is None:
                break
            wanted = response.previous
        return found

    async def delete(self, owner: str, response_id: str) -> bool:
        owned = self._of(owner)
        if owned.find(response_id) is None:
            return False
        owned.drop(response_id)
        return True

    async def aclose(self) -> None:
        pass

    def _refusal(self, response: SealedResponse) -> NotStored | None:
        if not self._settings.responses_quota:
            return "disabled"
        return "too_large" if len(response.record) > min(RESPONSE_MAX_BYTES, self._most) else None

    @property
    def _most(self) -> int:
        """Most bytes of one owner."""
        return min(self._settings.responses_quota_bytes, MEMORY_BYTES)

    def _store(self, owner: str, response: SealedResponse) -> None:
        owned, expires = self._of(owner), time.monotonic() + self._settings.responses_ttl
        owned.responses[response.id] = (response, expires)
        owned.size += len(response.record)
        while len(owned.responses) > self._settings.responses_quota or owned.size > self._most:
            self._drop_first(owner)
        while self._size > MEMORY_BYTES:
            self._drop_first(next(iter(self._owners)))

    def _of(self, owner: str) -> _Owned:
        owned = self._owners.setdefault(owner, _Owned())
        self._owners.move_to_end(owner)
        return owned

    def _drop_first(self, owner: str) -> None:
        owned = self._owners[owner]
        if not owned.responses:
            del self._owners[owner]
            return
        owned.drop(next(iter(owned.responses)))
        metrics.RESPONSES_DROPPED.inc()
