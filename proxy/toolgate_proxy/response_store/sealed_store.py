"""The interface of a store of sealed responses. It neither opens them nor knows what they contain.

A store raises StoreUnavailable if it can't tell what it has.
"""

from __future__ import annotations

from typing import Literal, Protocol

from .errors import NotStored
from .record import SealedResponse

Kept = Literal["fleet", "process", "unavailable"]


class SealedStore(Protocol):
    @property
    def kept(self) -> Kept:
        """Where responses are stored: in Redis for all gateways, or in this process. `unavailable`
        while Redis does not respond."""

    async def put(self, owner: str, response: SealedResponse) -> NotStored | None:
        """Stores a response. If the owner's quota is reached, the responses that were used least
        recently are dropped. Returns why it was not stored."""

    async def read(self, owner: str, response_id: str, *, most: int, size: int) -> list[bytes]:
        """The record and those that it continues, the newest first: at most `most`. If they have
        more than `size` bytes, the last one is empty."""

    async def events(self, owner: str, response_id: str) -> bytes | None: ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Whether there was such a response."""

    async def aclose(self) -> None: ...
