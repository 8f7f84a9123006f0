"""All virtual keys in the memory of this process, by their hashes, in sync with Redis and the key
file.

Requests are authenticated from this cache alone: they never wait for Redis, and wrong keys never
reach it. Both sources are polled. Without changes, a poll is one small command. Publish/subscribe
would be quicker, but a message that is missed is lost, and here that could be the revocation of a
key.

Nothing in Redis is trusted without its seal, and no key goes back to an earlier record
(redis_store.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey

from .. import metrics
from ..background import poll_forever
from ..redis_client import ADMISSION_TIMEOUT, SharedRedis
from ..settings import Settings
from ..yaml_files import BadFile
from .file_store import read_keys
from .key import MAX_LENGTH, SEAL_LENGTH, Hasher, Key, StoredSecret, now
from .redis_store import EARLIER_RECORD, MARK, RECORDS, Mark, VersionedKey, opened

WRONG_KEY = "Incorrect API key provided. Ask the administrator of this gateway for an API key."


@dataclass(frozen=True)
class _CachedSecret:
    key: Key
    secret: StoredSecret
    from_file: bool


class KeyCache:
    """The keys that the gateway accepts. Valid for `grace` seconds after Redis responded."""

    def __init__(
        self,
        hasher: Hasher,
        grace: float,
        wall_clock: Callable[[], datetime] = now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hasher = hasher
        self._grace = grace
        self._now = wall_clock
        self._clock = clock
        self._by_hash: dict[str, _CachedSecret] = {}
        self._by_id: dict[str, Key] = {}
        self._fresh_until: float | None = None

    def find(self, sent: str) -> Key:
        """Return the key of a request. Raise InvalidKey, RetiredKey and KeysUnavailable."""
        if len(sent) > MAX_LENGTH:
            raise InvalidKey(WRONG_KEY)
        cached = self._by_hash.get(self._hasher.hash(sent))
        stale = self._fresh_until is None or self._clock() > self._fresh_until
        if stale and not (cached and cached.from_file):
            raise KeysUnavailable(
                "API keys cannot be checked, because they could not be read from Redis. Send the "
                "request again.",
                retry_after=1,
            )
        if cached is None:
            raise InvalidKey(WRONG_KEY)
        key, moment = cached.key, self._now()
        status = key.status(moment)
        if cached.secret.until is not None and cached.secret.until <= moment:
            status = "rotated"
        if status != "active":
            # Only a client that has the whole key gets this message, so it helps no attacker.
            raise RetiredKey(
                f"This API key is {status}. Ask the administrator of this gateway for a new one."
            )
        return key

    def require_current(self, key: Key) -> None:
        """Raise RetiredKey if, while the response to a request with `key` is generated, the key
        was revoked, blocked or removed since. A key that has expired or was rotated ends no
        response."""
        current = self._by_id.get(key.id)
        if current is key:
            return
        if current is None or current.revoked is not None or current.terms.blocked:
            status = "removed"
            if current is not None:
                status = "blocked" if current.revoked is None else "revoked"
            raise RetiredKey(
                f"This API key was {status} during the response. Ask the administrator of this "
                "gateway for a new one."
            )

    def __len__(self) -> int:
        return len({cached.key.id for cached in self._by_hash.values()})

    def all(self) -> list[Key]:
        """Return all keys, in any state."""
        return list(self._by_id.values())

    def __contains__(self, sent: str) -> bool:
        """Return whether it is a virtual key, in any state."""
        return len(sent) <= MAX_LENGTH and self._hasher.hash(sent) in self._by_hash

    def confirm(self) -> None:
        """Restart the grace period: the store responded, with changes or without."""
        self._fresh_until = self._clock() + self._grace

    def replace(self, keys: Iterable[Key], from_file: Iterable[Key] = ()) -> None:
        """Replace all keys. Keys from the file never become stale."""
        listed = [(key, False) for key in keys] + [(key, True) for key in from_file]
        self._by_hash = {
            secret.hash: _CachedSecret(key, secret, in_file)
            for key, in_file in listed
            for secret in key.secrets
        }
        self._by_id = {key.id: key for key, _ in listed}


logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Interval of looks for changed keys. A revoked key works that long; a look is one command."""
GRACE_SECONDS = 300.0
"""Time for which cached keys stay valid while Redis is down."""
FIRST_POLL_TIMEOUT = 2.0
"""Seconds that the first requests wait for the keys to be read."""


class BadKeyData(Exception):
    """An entry of Redis is not as the command line writes it. The message names it."""


class KeySync:
    """Reads keys from Redis and the key file, as configured. Call `started` in the app's loop."""

    @classmethod
    def from_settings(cls, settings: Settings) -> KeySync | None:
        """Return None if no virtual keys are configured."""
        if settings.key_secret is None:
            return None
        hasher = Hasher(settings.key_secret)
        return cls(KeyCache(hasher, GRACE_SECONDS), hasher, settings)

    def __init__(
        self, key_cache: KeyCache, hasher: Hasher, settings: Settings, poll: float = POLL_SECONDS
    ) -> None:
        self.key_cache = key_cache
        self._hasher = hasher
        self._settings = settings
        self._poll_seconds = poll
        self._redis = (
            SharedRedis(
                settings.redis_url,
                ADMISSION_TIMEOUT,
                f"Cached API keys remain valid for {GRACE_SECONDS:.0f} s",
                metrics.KEYS_BREAKER,
            )
            if settings.redis_url is not None
            else None
        )
        self._seal = b""
        """Of the mark that the cache has."""
        self._versions: dict[str, int] = {}
        """The newest version of each key that a mark has had, whatever Redis has now."""
        self._newest: dict[str, VersionedKey] = {}
        """The newest record that was seen of each key."""
        self._redis_keys: dict[str, Key] = {}
        self._file_keys: dict[str, Key] = {}
        self._file_stamp: tuple[float, int] | None = None
        """Modification time and size of the file at the last read, valid or not."""
        self._logged: set[str] = set()
        """Errors that were logged. An error is logged once, until it is fixed."""
        self._bad_data = ""
        """The last error of this kind."""
        self._polled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def started(self) -> None:
        """Start polling, and wait for the first keys, for at most FIRST_POLL_TIMEOUT."""
        if self._task is None:
            polling = poll_forever(
                self.poll, self._poll_seconds, logger, "The API keys could not be read"
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
        file_changed, changed = self._poll_file(), await self._poll_redis()
        if changed is not None:
            self.key_cache.confirm()
            self._polled.set()
        if file_changed or changed:
            self.key_cache.replace(self._redis_keys.values(), from_file=self._file_keys.values())

    async def _poll_redis(self) -> bool | None:
        """Return whether there were changes; None if the keys in Redis could not be read."""
        if self._redis is None:
            return False
        try:
            changed = await self._read_changes(self._redis)
        except BadKeyData as error:
            self._bad_data = (
                f"The API keys in Redis cannot be read, so changes of keys have no effect. {error}"
            )
            self._log_once(self._bad_data)
            return None
        if changed is not None:
            self._logged.discard(self._bad_data)
        return changed

    async def _read_changes(self, redis: SharedRedis) -> bool | None:
        """Return the same as `_poll_redis`. Raise BadKeyData."""
        replies = await redis.run([("GETRANGE", MARK, 0, SEAL_LENGTH - 1), ("HLEN", RECORDS)])
        if replies is None:
            return None
        seal, number = _checked(MARK, replies[0], bytes), _checked(RECORDS, replies[1], int)
        if seal == self._seal and (seal or not number):
            return False
        if not seal and not number:  # the cached keys expire as if Redis did not respond
            raise BadKeyData(
                "Redis has lost them. Configure Redis to persist its data, and create or import "
                "the keys again."
            )
        # The mark first: records may be newer than the mark, but not older.
        if (replies := await redis.run([("GET", MARK)])) is None:
            return None
        sealed = _checked(MARK, replies[0], bytes)
        if not sealed or (mark := Mark.open(self._hasher, sealed)) is None:
            raise BadKeyData(
                f"{MARK} is missing, or was not sealed with TOOLGATE_KEY_SECRET, so earlier "
                "records could not be told from the newest. Check the keys with `toolgate keys "
                "list --all`, and write one of them, for example with `toolgate keys update`."
            )
        if not await self._read(redis, mark):
            return None
        self._seal = sealed[:SEAL_LENGTH]
        self._redis_keys = {
            key_id: entry.key
            for key_id in mark.keys
            if (entry := self._newest.get(key_id)) and entry.version >= self._versions[key_id]
        }
        return True

    async def _read(self, redis: SharedRedis, mark: Mark) -> bool:
        """Read the records of keys with new versions. Return False if Redis did not respond. Raise
        BadKeyData."""
        for key_id, version in mark.keys.items():
            if version < self._versions.get(key_id, 0):
                self._log_once(EARLIER_RECORD % key_id)
            self._versions[key_id] = max(version, self._versions.get(key_id, 0))
        seen = {key_id: versioned.version for key_id, versioned in self._newest.items()}
        changed = [each for each in mark.keys if seen.get(each, 0) < self._versions[each]]
        if not changed:
            return True
        if (replies := await redis.run([("HMGET", RECORDS, *changed)])) is None:
            return False
        pairs = zip(changed, _checked(RECORDS, replies[0], list), strict=True)
        records = [(name.encode(), each) for name, each in pairs if isinstance(each, bytes)]
        for versioned in opened(self._hasher, records):
            if versioned.version < self._versions[versioned.key.id]:
                self._log_once(EARLIER_RECORD % versioned.key.id)
            else:
                self._newest[versioned.key.id] = versioned
        return True

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            logger.error("%s", message)
            self._logged.add(message)

    def _poll_file(self) -> bool:
        """Return whether the file was read again."""
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
        except (BadFile, OSError) as error:
            reason = error if isinstance(error, BadFile) else f"{path}: {type(error).__name__}."
            self._log_once(
                f"TOOLGATE_KEYS_FILE could not be read, so its API keys are unchanged. {reason}"
            )
            return False
        self._logged.clear()
        self._file_keys = {key.id: key for key in keys}
        return True


def _checked(name: str, reply: object, kind: type) -> Any:
    """Return the reply to a command for one entry of Redis; None without one. Raise BadKeyData."""
    if reply is None or isinstance(reply, kind):
        return reply
    reason = str(reply) if isinstance(reply, Exception) else f"{type(reply).__name__} as reply"
    raise BadKeyData(
        f"{name}: {reason}. If its type is wrong, delete it, and write a key with `toolgate keys`."
    )
