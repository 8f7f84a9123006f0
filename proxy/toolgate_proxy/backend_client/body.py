"""The body of a backend's response. Every byte that a backend sends is read here, within a bound.

A backend may be broken, or be another server. What it sends must not take the memory or the event
loop of a gateway that serves other models, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from toolgate_core.errors import BackendFailed

from ..json_values import exceeds

LARGE = 200_000
"""Size in bytes from which a body is parsed in a thread."""
ADVICE = "Check that it is a Toolgate backend of the same release."

T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """Upper bounds of a body."""

    bytes: int
    values: int
    """JSON values in one parsed part. A value of two bytes takes some hundred bytes of memory once
    it is parsed."""


SMALL = Bound(1_000_000, 50_000)
"""Descriptions of a backend, errors, numbers of tokens."""
GRAMMARS = Bound(32_000_000, 100_000)
"""Verdicts on grammars, with the compiled ones that go to Redis."""


class Body:
    """Raises BackendFailed for a body that is compressed or exceeds its bound."""

    def __init__(self, response: aiohttp.ClientResponse, bound: Bound) -> None:
        self._response = response
        self._bound = bound
        self._size = 0
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise BackendFailed(
                f"The backend compressed its response ({encoding[:50]!r}), though the gateway asks "
                "for responses without compression. Disable the compression of a server between "
                "them."
            )
        if (response.content_length or 0) > bound.bytes:
            raise self._too_large()

    async def part(self) -> bytes:
        """All bytes that have arrived, at least one; empty at the end of the body."""
        part = await self._response.content.readany()
        self._size += len(part)
        if self._size > self._bound.bytes:
            raise self._too_large()
        return part

    async def whole(self) -> bytearray:
        content = bytearray()
        while part := await self.part():
            content += part
        return content

    async def parsed(
        self, content: bytes | bytearray, parse: Callable[[bytes | bytearray], T]
    ) -> T:
        """`content`, a part of this body or all of it, converted by `parse`. A large one is
        converted in a thread."""
        if exceeds(content, self._bound.values):
            raise BackendFailed(
                f"The backend sent more than {self._bound.values:,} JSON values at once. {ADVICE}"
            )
        if len(content) > LARGE:
            return await asyncio.to_thread(parse, content)
        return parse(content)

    def _too_large(self) -> BackendFailed:
        return BackendFailed(
            f"The backend sent more than {self._bound.bytes:,} bytes, which is more than a "
            f"response to this request can have. {ADVICE}"
        )
