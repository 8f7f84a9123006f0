from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from toolgate_backend.keepalive import with_keepalives


async def slow(pauses: list[float]) -> AsyncGenerator[int, None]:
    for at, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield at


async def test_silence_is_broken_and_nothing_is_lost() -> None:
    seen = [item async for item in with_keepalives(slow([0, 0.25, 0]), 0.05)]
    assert [item for item in seen if item is not None] == [0, 1, 2]
    assert seen.count(None) >= 2


async def test_an_error_passes() -> None:
    async def broken() -> AsyncGenerator[int, None]:
        yield 1
        raise RuntimeError

    with pytest.raises(RuntimeError):
        _ = [item async for item in with_keepalives(broken(), 1)]


async def test_closing_it_in_a_silence_ends_what_it_waits_for() -> None:
    closed = False

    async def forever() -> AsyncGenerator[int, None]:
        nonlocal closed
        try:
            await asyncio.sleep(60)
            yield 1
        finally:
            closed = True

    stream = with_keepalives(forever(), 0.01)
    assert await anext(stream) is None
    await stream.aclose()  # type: ignore[attr-defined]
    assert closed
