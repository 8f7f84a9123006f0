"""The interface of a store of sealed responses, and why one is not stored or read.

A store neither opens responses nor knows what they contain. It raises StoreUnavailable if it can't
tell what it has. A gateway process has a lease while it changes a record, and loses it soon after
it dies.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Literal, Protocol

from .record import SealedResponse

Kept = Literal["fleet", "process", "unavailable"]


class SealedStore(Protocol):
    @property
    def kept(self) -> Kept:
        """Where responses are stored: in Redis for all gateways, or in this process. `unavailable`
        while Redis does not respond."""

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        """Store a response. If the owner's quota is reached, the responses that were used least
        recently are dropped. Return why it was not stored."""

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        """Return the record and those that it continues, the newest first: at most `most`. If they
        have more than `size` bytes, the last one is empty."""

    async def events(self, owner: str, response_id: str) -> bytes | None: ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Return whether there was such a response."""

    async def replace(
        self, owner: str, response: SealedResponse, former: bytes
    ) -> NotStored | Literal["changed"] | None:
        """Store a record in place of `former`, the record that was read. Return why it was not
        stored: `changed` if there is another record now, or none."""

    async def hold(self, owner: str, name: str, holder: str, seconds: float) -> bool:
        """Take or prolong the lease of that name. Return False if another holder has it."""

    async def release(self, owner: str, name: str, holder: str) -> None:
        """End the lease, if the holder has it."""

    async def aclose(self) -> None: ...


NotStored = Literal["unavailable", "too_large", "exists", "disabled"]
"""Why a response is not stored: Redis does not respond or refuses the write; it exceeds
8 MB (`RESPONSE_MAX_BYTES`) or the quota alone; there is a response with the ID that the client set;
TOOLGATE_RESPONSES_QUOTA is 0."""


class EventsTooLarge(Exception):
    """The events of a response in flight were too large to keep."""


class StoreUnavailable(Exception):
    """Redis does not respond, or refuses the command."""


LEASE_SECONDS = 15.0
"""Time after which the lease of a crashed gateway ends. It is prolonged three times in it."""


class Lease:
    """The lease of one record. It is prolonged until it is released."""

    def __init__(self, store: SealedStore, owner: str, name: str) -> None:
        self._store = store
        self._place = (owner, name, secrets.token_hex(16))
        self._prolonging: asyncio.Task[None] | None = None

    async def take(self) -> bool:
        """Return False if another holder has it. Raises StoreUnavailable."""
        if not await self._store.hold(*self._place, LEASE_SECONDS):
            return False
        self._prolonging = asyncio.create_task(self._prolong())
        return True

    async def release(self) -> None:
        """Does nothing without the lease. If Redis does not respond, the lease ends by itself."""
        prolonging, self._prolonging = self._prolonging, None
        if prolonging is not None:
            prolonging.cancel()
            with suppress(StoreUnavailable):
                await self._store.release(*self._place)

    async def _prolong(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            with suppress(StoreUnavailable):
                await self._store.hold(*self._place, LEASE_SECONDS)
