"""Waiting for what another task, thread or process does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 30.0
"""Only a failure takes so long."""


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Ask again until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  others change it, without an event
            await asyncio.sleep(0.01)
