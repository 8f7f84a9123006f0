"""Catalogues that were searched lately. The requests of one conversation have the same tools."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from .catalogue import Catalogue

MAX_SIZE = 20_000_000
"""Most characters of all catalogues. An index needs about three bytes for each."""

Functions = Sequence[Mapping[str, Any]]


class Catalogues:
    """Those that were not used for the longest time are dropped first."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._made: OrderedDict[bytes, Catalogue] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    async def ranked(self, tools: Functions, query: str, limit: int) -> list[str]:
        """As Catalogue.ranked."""
        return await self._search(tools, lambda catalogue: catalogue.ranked(query, limit))

    async def matching(self, tools: Functions, pattern: str, limit: int) -> list[str]:
        """As Catalogue.matching. Raise InvalidPattern."""
        return await self._search(tools, lambda catalogue: catalogue.matching(pattern, limit))

    async def _search(
        self, tools: Functions, search: Callable[[Catalogue], list[str]]
    ) -> list[str]:
        def found() -> list[str]:
            # One at a time: an index is not made twice, and SQLite's connection is not shared.
            with self._lock:
                return search(self._catalogue(tools))

        return await asyncio.to_thread(found)

    def _catalogue(self, tools: Functions) -> Catalogue:
        key = hashlib.sha256(orjson.dumps([dict(tool) for tool in tools])).digest()
        known = self._made.get(key)
        if known is not None:
            self._made.move_to_end(key)
            return known
        made = self._made[key] = Catalogue(tools)
        self._size += made.size
        while self._size > self._max_size and len(self._made) > 1:
            _, dropped = self._made.popitem(last=False)
            self._size -= dropped.size
        return made


CATALOGUES = Catalogues()
"""Those of this process."""
