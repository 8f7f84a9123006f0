"""Values that the gateway keeps for an owner for a day, in Redis or in the memory of this process:
the reasoning of turns, and the results of approved calls. They are sealed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from .metrics import REASONING_BREAKER
from .redis_client import SharedRedis
from .settings import Settings

PREFIX = "toolgate:kept:"
LIFE_SECONDS, LIFE_MS = 86_400.0, 86_400_000
"""A turn that is older is rarely continued, and can be continued without its reasoning."""
MEMORY_BYTES = 64_000_000
"""Most bytes in the memory of a process."""


class RedisValues:
    """`toolgate:kept:<name>`: a sealed value with a time to live. Without Redis there are none."""

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        consequence = (
            "Reasoning that clients drop is not handed back, and approved calls may run again, "
            "until it responds"
        )
        timeout = settings.redis_timeout
        self._redis = SharedRedis(settings.redis_url, timeout, consequence, REASONING_BREAKER)

    async def put(self, values: Mapping[str, bytes]) -> None:
        await self._redis.run(
            [("SET", PREFIX + name, value, "PX", LIFE_MS) for name, value in values.items()]
        )

    async def get(self, names: Sequence[str]) -> list[bytes | None]:
        replies = await self._redis.run([("GET", PREFIX + name) for name in names])
        if replies is None:
            return [None] * len(names)
        return [reply if isinstance(reply, bytes) else None for reply in replies]

    async def aclose(self) -> None:
        await self._redis.aclose()


class MemoryValues:
    """Kept values in this process. The least recently used ones are dropped."""

    def __init__(self, most: int = MEMORY_BYTES) -> None:
        self._life = LIFE_SECONDS
        self._most = most
        self._size = 0
        self._values: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    async def put(self, values: Mapping[str, bytes]) -> None:
        for name, value in values.items():
            self._drop(name)
            self._values[name] = (value, time.monotonic() + self._life)
            self._size += len(value)
        while self._size > self._most:
            self._drop(next(iter(self._values)))

    async def get(self, names: Sequence[str]) -> list[bytes | None]:
        return [self._find(name) for name in names]

    async def aclose(self) -> None:
        pass

    def _find(self, name: str) -> bytes | None:
        entry = self._values.get(name)
        if entry is None:
            return None
        if entry[1] <= time.monotonic():
            self._drop(name)
            return None
        self._values.move_to_end(name)
        return entry[0]

    def _drop(self, name: str) -> None:
        value, _ = self._values.pop(name, (b"", 0.0))
        self._size -= len(value)


KeptValues = RedisValues | MemoryValues
