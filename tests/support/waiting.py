"""Waiting for what another task, thread or process does, and a clock that tests advance by hand."""

import asyncio
from datetime import UTC, datetime, timedelta

SECONDS = 30.0
"""Only a failure takes so long."""


async def until(condition, seconds=SECONDS):
    """Ask again until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  others change it, without an event
            await asyncio.sleep(0.01)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds

    def wall(self):
        return NOON + timedelta(seconds=self.seconds - 1000)
