"""Looking again and again, whatever comes of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable


async def keep_looking(
    look: Callable[[], Awaitable[None]], seconds: float, logger: logging.Logger, failed: str
) -> None:
    """Until cancelled, `seconds` apart. `failed` is logged with the name of what went wrong."""
    while True:
        try:
            await look()
        except Exception as error:  # noqa: BLE001  the watch must outlive whatever it meets
            logger.warning("%s (%s).", failed, type(error).__name__)
        await asyncio.sleep(seconds)
