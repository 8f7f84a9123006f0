"""What keeps the cache of keys fresh: a task that asks Redis, and looks at the file, several times
a second.

Asking is one small command while nothing changes. It was chosen over publish/subscribe because a
message that is missed is missed for good, and here a missed message would be a revoked key let in.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ..polling import keep_looking
from ..redis.client import SharedRedis
from ..settings import Settings
from . import metrics
from .cache import KeyCache
from .file_store import BadKeyFile, read_keys
from .hashing import Hasher
from .key import Key
from .redis_store import CHANGES, EPOCH, RECORDS, VERSION, opened

logger = logging.getLogger(__name__)

FIRST_LOOK = 2.0
"""Seconds that the first requests wait for the keys to be read."""


@dataclass
class _Seen:
    """How far the cache has followed Redis."""

    epoch: bytes | None = None
    version: float = 0


class KeySync:
    """Fills the cache from where the settings say keys are. `start` it in the loop of the app."""

    def __init__(self, key_cache: KeyCache, hasher: Hasher, settings: Settings) -> None:
        self.key_cache = key_cache
        self._hasher = hasher
        self._settings = settings
        self._redis = (
            SharedRedis(
                settings.redis_url,
                settings.limit_timeout,
                "keys are believed a while yet",
                metrics.REDIS_BREAKER,
            )
            if settings.redis_url is not None
            else None
        )
        self._seen = _Seen()
        self._of_redis: dict[str, Key] = {}
        self._of_file: dict[str, Key] = {}
        self._stamp: tuple[float, int] | None = None
        """Of the file as it was read last, or found wanting."""
        self._told: set[str] = set()
        """What has been complained of, once each until it is mended."""
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def started(self) -> None:
        """Starts the task when it has not been; waits for the first keys, within bounds."""
        if self._task is None:
            looking = keep_looking(
                self.look, self._settings.key_poll, logger, "Keys could not be read"
            )
            self._task = asyncio.create_task(looking)
        if not self._looked.is_set():
            try:
                async with asyncio.timeout(FIRST_LOOK):
                    await self._looked.wait()
            except TimeoutError:
                self._looked.set()  # those after the first do not wait for a Redis that is away

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._redis is not None:
            await self._redis.aclose()

    async def look(self) -> None:
        """Once: at the file and at Redis."""
        changed = self._look_at_file()
        if self._redis is None:
            self.key_cache.refreshed()
            self._looked.set()
        else:
            said = await self._look_at_redis(self._redis)
            changed = changed or bool(said)
            if said is not None:
                self.key_cache.refreshed()
                self._looked.set()
        if changed:
            self.key_cache.replace(self._of_redis.values(), lasting=self._of_file.values())

    async def _look_at_redis(self, redis: SharedRedis) -> bool | None:
        """Whether there was anything new; None where there was no answer to believe."""
        since = f"({self._seen.version}"
        replies = await redis.run(
            [
                ("GET", EPOCH),
                ("GET", VERSION),
                ("ZRANGEBYSCORE", CHANGES, since, "+inf", "WITHSCORES"),
            ]
        )
        if replies is None:
            return None
        epoch, version, changes = replies
        if not isinstance(changes, list) or isinstance(version, Exception):
            return None
        # A version that went back: Redis lost its last writes, and what is written now bears
        # versions that were seen.
        at = int(version) if isinstance(version, bytes) else 0
        if epoch != self._seen.epoch or at < self._seen.version:
            if epoch is None:
                return self._emptied()
            self._told.clear()
            self._seen = _Seen(epoch=epoch if isinstance(epoch, bytes) else None)
            self._of_redis = {}
            return await self._look_at_redis(redis)
        if not changes:
            return False
        names, scores = changes[::2], changes[1::2]
        if isinstance(changes[0], list | tuple):  # RESP3 answers with pairs
            names, scores = [pair[0] for pair in changes], [pair[1] for pair in changes]
        held = await redis.run([("HMGET", RECORDS, *names)])
        if held is None or not isinstance(held[0], list):
            return None
        records = [(n, r) for n, r in zip(names, held[0], strict=True) if isinstance(r, bytes)]
        believed = {key.id: key for key in opened(self._hasher, records)}
        for name in names:
            self._of_redis.pop(name.decode(errors="replace"), None)
        self._of_redis |= believed
        self._seen.version = max(float(score) for score in scores)
        return True

    def _emptied(self) -> bool | None:
        """A Redis without keys: as it should be before the first; else it has lost them, and what
        is known of them is believed no longer than if it did not answer."""
        if self._seen.epoch is None:
            return False
        self._complain("Redis has lost the keys: let it keep its data, and import them again.")
        return None

    def _complain(self, said: str) -> None:
        if said not in self._told:
            logger.error("%s", said)
            self._told.add(said)

    def _look_at_file(self) -> bool:
        path = self._settings.keys_file
        if path is None:
            return False
        try:
            state = path.stat()
            stamp = (state.st_mtime, state.st_size)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            keys = read_keys(path, self._hasher)
        except BadKeyFile as error:
            self._complain(f"The keys are left as they were: {error}")
            return False
        except OSError as error:
            self._complain(f"The keys are left as they were: {path}: {type(error).__name__}.")
            return False
        self._told.clear()
        self._of_file = {key.id: key for key in keys}
        return True
