"""Waiting for what another task, thread or process does, and a clock that tests advance by hand."""

import asyncio
import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

SECONDS = 30.0
"""Only a failure takes so long."""


async def until(
    ask: Callable[[], Any], seconds: float = SECONDS, holds: Callable[[Any], object] = bool
) -> Any:
    """Ask again until the answer, which may have to be awaited, holds. Return it."""
    async with asyncio.timeout(seconds):
        while True:
            found = ask()
            if is_awaited := inspect.isawaitable(found):
                found = await found
            if holds(found):
                return found
            await asyncio.sleep(0.05 if is_awaited else 0.01)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)
