"""Leases: a gateway process has one while it changes a record, and loses it soon after it dies."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from .sealed_store import SealedStore, StoreUnavailable

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
