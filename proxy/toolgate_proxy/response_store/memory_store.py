"""Sealed responses in the memory of this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from ..settings import Settings
from .metrics import DROPPED
from .record import RESPONSE_MAX_BYTES, SealedResponse
from .sealed_store import Kept, NotStored

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
        self.size -= self.responses.pop(response_id)[0].size


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
        limits, owned = self._settings, self._of(owner)
        most = min(limits.responses_quota_bytes, MEMORY_BYTES)
        if not limits.responses_quota:
            return "disabled"
        if response.size > min(RESPONSE_MAX_BYTES, most):
            return "too_large"
        if owned.find(response.id) is not None:
            return "exists"
        owned.responses[response.id] = (response, time.monotonic() + limits.responses_ttl)
        owned.size += response.size
        while len(owned.responses) > limits.responses_quota or owned.size > most:
            self._drop_first(owner)
        while self._size > MEMORY_BYTES:
            self._drop_first(next(iter(self._owners)))
        return None

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

    async def events(self, owner: str, response_id: str) -> bytes | None:
        found = self._of(owner).find(response_id)
        return found.events or None if found is not None else None

    async def delete(self, owner: str, response_id: str) -> bool:
        owned = self._of(owner)
        if owned.find(response_id) is None:
            return False
        owned.drop(response_id)
        return True

    async def aclose(self) -> None:
        pass

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
        DROPPED.inc()
