"""Keeps the cache of keys in sync with Redis and the key file, by polling both.

Without changes, a poll is one small command. Publish/subscribe would be quicker, but a message that
is missed is lost, and here that could be the revocation of a key.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ..polling import poll_forever
from ..redis.client import SharedRedis
from ..settings import Settings
from . import metrics
from .cache import KeyCache
from .file_store import BadKeyFile, read_keys
from .hashing import Hasher
from .key import Key
from .redis_store import CHANGES, EPOCH, RECORDS, VERSION, opened

logger = logging.getLogger(__name__)

FIRST_POLL_TIMEOUT = 2.0
"""Seconds that the first requests wait for the keys to be read."""


@dataclass
class _Position:
    """The state of Redis that the cache has."""

    epoch: bytes | None = None
    version: float = 0


class KeySync:
    """Reads keys from Redis and the key file, as configured. Call `started` in the app's loop."""

    def __init__(self, key_cache: KeyCache, hasher: Hasher, settings: Settings) -> None:
        self.key_cache = key_cache
        self._hasher = hasher
        self._settings = settings
        self._redis = (
            SharedRedis(
                settings.redis_url,
                settings.limit_timeout,
                "Cached API keys remain valid for TOOLGATE_KEY_GRACE seconds",
                metrics.REDIS_BREAKER,
            )
            if settings.redis_url is not None
            else None
        )
        self._position = _Position()
        self._redis_keys: dict[str, Key] = {}
        self._file_keys: dict[str, Key] = {}
        self._file_stamp: tuple[float, int] | None = None
        """Modification time and size of the file at the last read, valid or not."""
        self._logged: set[str] = set()
        """Errors that were logged. An error is logged once, until it is fixed."""
        self._polled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def started(self) -> None:
        """Start polling, and wait for the first keys, for at most FIRST_POLL_TIMEOUT."""
        if self._task is None:
            polling = poll_forever(
                self.poll, self._settings.key_poll, logger, "The API keys could not be read"
            )
            self._task = asyncio.create_task(polling)
        if not self._polled.is_set():
            try:
                async with asyncio.timeout(FIRST_POLL_TIMEOUT):
                    await self._polled.wait()
            except TimeoutError:
                self._polled.set()  # later requests do not wait

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._redis is not None:
            await self._redis.aclose()

    async def poll(self) -> None:
        """Read changes of the file and of Redis once."""
        changed = self._poll_file()
        if self._redis is None:
            self.key_cache.confirm()
            self._polled.set()
        else:
            redis_changed = await self._poll_redis(self._redis)
            changed = changed or bool(redis_changed)
            if redis_changed is not None:
                self.key_cache.confirm()
                self._polled.set()
        if changed:
            self.key_cache.replace(self._redis_keys.values(), from_file=self._file_keys.values())

    async def _poll_redis(self, redis: SharedRedis) -> bool | None:
        """Whether there were changes; None if Redis did not respond or has lost the keys."""
        since = f"({self._position.version}"
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
        # If the version went back, Redis has lost its last writes. New changes then get versions
        # that were read already, so everything has to be read again.
        at = int(version) if isinstance(version, bytes) else 0
        if epoch != self._position.epoch or at < self._position.version:
            if epoch is None:
                return self._emptied()
            self._logged.clear()
            self._position = _Position(epoch=epoch if isinstance(epoch, bytes) else None)
            self._redis_keys = {}
            return await self._poll_redis(redis)
        if not changes:
            return False
        names, scores = changes[::2], changes[1::2]
        if isinstance(changes[0], list | tuple):  # RESP3 replies with pairs
            names, scores = [pair[0] for pair in changes], [pair[1] for pair in changes]
        replies = await redis.run([("HMGET", RECORDS, *names)])
        if replies is None or not isinstance(replies[0], list):
            return None
        records = [(n, r) for n, r in zip(names, replies[0], strict=True) if isinstance(r, bytes)]
        valid = {key.id: key for key in opened(self._hasher, records)}
        for name in names:
            self._redis_keys.pop(name.decode(errors="replace"), None)
        self._redis_keys |= valid
        self._position.version = max(float(score) for score in scores)
        return True

    def _emptied(self) -> bool | None:
        """Redis has no keys. Either no key was created yet, or it has lost them: then the cached
        keys expire as if Redis did not respond."""
        if self._position.epoch is None:
            return False
        self._log_once(
            "Redis has lost the API keys. Configure Redis to persist its data, and create or "
            "import the keys again."
        )
        return None

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            logger.error("%s", message)
            self._logged.add(message)

    def _poll_file(self) -> bool:
        """Whether the file was read again."""
        path = self._settings.keys_file
        if path is None:
            return False
        try:
            state = path.stat()
            stamp = (state.st_mtime, state.st_size)
            if stamp == self._file_stamp:
                return False
            self._file_stamp = stamp
            keys = read_keys(path, self._hasher)
        except (BadKeyFile, OSError) as error:
            reason = error if isinstance(error, BadKeyFile) else f"{path}: {type(error).__name__}."
            self._log_once(
                f"TOOLGATE_KEYS_FILE could not be read, so its API keys are unchanged. {reason}"
            )
            return False
        self._logged.clear()
        self._file_keys = {key.id: key for key in keys}
        return True
