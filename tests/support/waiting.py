"""Waiting for what another task, thread or process does, and a clock that tests advance by hand."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

SECONDS = 30.0
"""Only a failure takes so long."""


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Ask again until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  others change it, without an event
            await asyncio.sleep(0.01)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)
