"""Virtual keys in Redis that no gateway accepts, because TOOLGATE_KEY_SECRET is not set."""

from __future__ import annotations

import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ..settings import Settings
from .redis_store import RECORDS, TIMEOUT

logger = logging.getLogger(__name__)

UNUSED = (
    "Redis has virtual keys, but TOOLGATE_KEY_SECRET is not set: their requests get a 401. Set it "
    "to the value with which the keys were created."
)


async def warn_of_unused_keys(settings: Settings) -> None:
    """Logs a warning. Does nothing if Redis does not respond: other code reports that."""
    if settings.redis_url is None or settings.key_secret is not None:
        return
    client = Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
    )
    try:
        if await client.hlen(RECORDS):
            logger.warning(UNUSED)
    except (RedisError, OSError):
        pass
    finally:
        await client.aclose()
