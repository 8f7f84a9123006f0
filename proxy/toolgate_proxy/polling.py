"""Polling that continues after errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable


async def poll_forever(
    poll: Callable[[], Awaitable[None]], seconds: float, logger: logging.Logger, failed: str
) -> None:
    """Calls `poll` every `seconds` until cancelled. Logs `failed` and the class of each error."""
    while True:
        try:
            await poll()
        except Exception as error:  # noqa: BLE001  polling must survive all errors
            logger.warning("%s (%s).", failed, type(error).__name__)
        await asyncio.sleep(seconds)
