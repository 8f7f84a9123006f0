from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from toolgate_proxy.backend_client.read_ahead import READ_AHEAD, ReadAhead


async def pieces(*given: bytes | Exception | float) -> AsyncIterator[bytes]:
    for each in given:
        if isinstance(each, float):
            await asyncio.sleep(each)
        elif isinstance(each, Exception):
            raise each
        else:
            yield each


async def test_what_has_come_is_taken_at_once() -> None:
    inbox = ReadAhead(pieces(b"a", b"b", b"c", 0.01, b"d"))
    assert [await inbox.take(), await inbox.take(), await inbox.take()] == [b"abc", b"d", None]
    assert await inbox.take() is None


async def test_what_came_before_an_error_is_taken_first() -> None:
    inbox = ReadAhead(pieces(b"a", ValueError("broken")))
    assert await inbox.take() == b"a"
    with pytest.raises(ValueError, match="broken"):
        await inbox.take()


async def test_nobody_reads_ahead_without_end() -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b"x" * 1024

    inbox = ReadAhead(endless())
    assert len(await inbox.take() or b"") == READ_AHEAD
    await asyncio.sleep(0.01)
    assert read * 1024 <= 3 * READ_AHEAD
    await inbox.aclose()


async def test_closing_it_ends_the_reading() -> None:
    left = False

    async def silent() -> AsyncIterator[bytes]:
        nonlocal left
        try:
            await asyncio.sleep(60)
            yield b""
        finally:
            left = True

    inbox = ReadAhead(silent())
    await asyncio.sleep(0)
    await inbox.aclose()
    assert left
