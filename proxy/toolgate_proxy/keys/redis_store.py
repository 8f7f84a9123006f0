"""Virtual keys in Redis: written by the command line, read by every gateway.

`toolgate:{keys}:records`  hash: id → sealed record
`toolgate:{keys}:mark`     sealed: the version of every key

A reader looks at the seal of the mark, which each write changes, and reads the records of the keys
whose versions are new in the mark. Unlike a published message, a change cannot be missed while the
reader is disconnected or starting.

The seal of a record shows that the command line wrote it, but not that it is the newest: whoever
can write to Redis could replace the record of a revoked key by the one before. So each record has
its version under its seal, and the mark, which is written together with each record, lists the
newest version of every key. A gateway accepts no record that is older than the mark, or than it has
seen.

A version is the time of the write in milliseconds, or one more than the last version if that is
later. So versions do not come again if Redis has lost its last writes.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from ..settings import Settings
from .key import Hasher, Key
from .limit_kinds import KINDS, LimitKind

logger = logging.getLogger(__name__)

MARK_ID = "mark"
"""The id under which a mark is sealed. Ids of keys begin with `key_`."""


class VersionedKey(NamedTuple):
    key: Key
    version: int


class Mark(BaseModel):
    """The newest version of every key, and of all of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = Field(default=0, ge=0)
    keys: dict[str, int] = {}

    @classmethod
    def of(cls, keys: Iterable[VersionedKey]) -> Mark:
        versions = {each.key.id: each.version for each in keys}
        return cls(version=max(versions.values(), default=0), keys=versions)

    def after(self, key_id: str, version: int) -> Mark:
        return Mark(version=version, keys=self.keys | {key_id: version})

    def seal(self, hasher: Hasher) -> bytes:
        return hasher.seal(MARK_ID, self.model_dump_json().encode())

    @classmethod
    def open(cls, hasher: Hasher, sealed: bytes) -> Mark | None:
        """Return None if it was not sealed with this secret."""
        body = hasher.open(MARK_ID, sealed)
        try:
            return None if body is None else cls.model_validate_json(body)
        except ValidationError:  # of a newer version of Toolgate
            return None


def seal(hasher: Hasher, key: Key, version: int) -> bytes:
    """Return a record of Redis."""
    body = key.model_dump_json(exclude_defaults=True).encode()
    return hasher.seal(key.id, b"%d\n" % version + body)


def opened(hasher: Hasher, records: Iterable[tuple[bytes, bytes]]) -> list[VersionedKey]:
    """Return the keys in records, by their ids. Invalid ones are logged and left out."""
    keys = []
    for key_id, sealed in records:
        name = key_id.decode(errors="replace")
        record = hasher.open(name, sealed)
        try:
            if record is None:
                raise ValueError("its seal does not match TOOLGATE_KEY_SECRET")
            version, _, body = record.partition(b"\n")
            key = Key.model_validate_json(body)
            if key.id != name:
                raise ValueError("it is the record of another key")
            keys.append(VersionedKey(key, int(version)))
        except ValidationError:
            logger.warning(
                "The record of the key %.80r in Redis is ignored: its format is not known, for "
                "example from a newer version of Toolgate.",
                name,
            )
        except ValueError as error:
            logger.warning("The record of the key %.80r in Redis is ignored: %s.", name, error)
    return keys


RECORDS, MARK = (f"toolgate:{{keys}}:{name}" for name in ("records", "mark"))
PUT = resources.files(__package__).joinpath("put.lua").read_text()
TIMEOUT = 5.0
"""Seconds that the command line waits for Redis."""
EARLIER_RECORD = (
    "The record of the key %.80r in Redis is ignored: it is earlier than the newest one. Either "
    "Redis has lost its last writes, or someone has put it back. Create the key again if it is "
    "needed."
)
MAX_ATTEMPTS = 50
"""Attempts to write a key while other commands write other keys."""


class StoreConflict(Exception):
    """The key cannot be written: it was changed by another command, or its alias is in use."""


@dataclass
class KeyUsage:
    today: dict[str, int] = field(default_factory=dict)
    """Use of the current day, by names such as `tokens_today`."""
    last_used: datetime | None = None
    """None if the key was not used in the last 90 days."""

    def shown(self) -> dict[str, Any]:
        last = self.last_used
        return self.today | ({"last_used": last.isoformat(timespec="seconds")} if last else {})


class _Contents(NamedTuple):
    mark: Mark
    digest: str
    """The SHA-1 of the mark's text in Redis; empty if there is none."""
    records: Mapping[bytes, bytes]
    keys: list[Key]
    """Those in the newest records."""


def _client(url: SecretStr) -> Redis:
    return Redis.from_url(
        url.get_secret_value(), socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
    )


class RedisStore:
    """The store of the command line. `put` replaces a key only if it is as this store read it.

    Raises redis' errors."""

    def __init__(self, url: SecretStr, hasher: Hasher) -> None:
        self._redis = _client(url)
        self._hasher = hasher
        self._read: dict[str, bytes] = {}
        """Sealed records as they were read, by id."""

    async def all(self) -> list[Key]:
        return (await self._contents()).keys

    async def find(self, name: str) -> Key | None:
        """Return the key with that alias or id."""
        contents = await self._contents()
        named = [key for key in contents.keys if key.alias == name and not key.revoked]
        named += [key for key in contents.keys if key.id == name]
        if not named:
            return None
        self._read[named[0].id] = contents.records[named[0].id.encode()]
        return named[0]

    async def put(self, key: Key) -> None:
        """Write a key. Raise StoreConflict."""
        for _ in range(MAX_ATTEMPTS):
            state = await self._contents()
            if state.records.get(key.id.encode()) != self._read.get(key.id):
                break
            others = {each.alias for each in state.keys if each.id != key.id and not each.revoked}
            if key.alias in others and not key.revoked:
                raise StoreConflict(
                    f"The alias {key.alias!r} is in use by another key. Choose another alias, or "
                    f"`toolgate keys revoke {key.alias!r}` first."
                )
            version = max(state.mark.version + 1, time.time_ns() // 1_000_000)
            record = seal(self._hasher, key, version)
            mark = state.mark.after(key.id, version).seal(self._hasher)
            if await self._redis.eval(PUT, 2, RECORDS, MARK, key.id, record, state.digest, mark):
                self._read[key.id] = record
                return
        raise StoreConflict(
            f"The key {key.alias!r} was changed by another command at the same time. Check it "
            f"with `toolgate keys show {key.alias!r}`, and try again."
        )

    async def _contents(self) -> _Contents:
        """Raise StoreConflict."""
        sealed = await self._redis.get(MARK)
        records = cast(dict[bytes, bytes], await self._redis.hgetall(RECORDS))
        versioned = opened(self._hasher, records.items())
        if not isinstance(sealed, bytes):  # the mark follows from the records
            if versioned:
                logger.warning(
                    "%s in Redis is missing, and will be made from the records. Someone may have "
                    "put back earlier records. Check all keys with `toolgate keys list --all`.",
                    MARK,
                )
            return _Contents(Mark.of(versioned), "", records, [each.key for each in versioned])
        mark = Mark.open(self._hasher, sealed)
        if mark is None:
            raise StoreConflict(
                f"{MARK} in Redis was not sealed with this TOOLGATE_KEY_SECRET, or not by this "
                "version of Toolgate. Use the secret and the version of the gateways. If the "
                "secret was changed, delete this entry, and create or import the keys again."
            )
        digest = hashlib.sha1(sealed, usedforsecurity=False).hexdigest()
        newest = [each.key for each in versioned if _is_newest(each, mark)]
        return _Contents(mark, digest, records, newest)

    async def usages(self, keys: Sequence[Key], at: datetime) -> list[KeyUsage]:
        """Return the use of each key."""
        asked: list[tuple[int, LimitKind]] = []
        async with self._redis.pipeline(transaction=False) as pipeline:
            for place, key in enumerate(keys):
                for kind in KINDS:
                    counted = kind.counted_for == "every key" or key.limits.of(kind) is not None
                    if kind.usage_field is not None and counted:
                        period = int(at.timestamp() * 1000) // kind.window.milliseconds
                        pipeline.hmget(kind.redis_key(key.id), [str(period), "last"])
                        asked.append((place, kind))
            replies = await pipeline.execute()
        usages = [KeyUsage() for _ in keys]
        for (place, kind), (used, last) in zip(asked, replies, strict=True):
            assert kind.usage_field is not None
            usages[place].today[kind.usage_field] = int(used or 0)
            if last is not None:
                moment = datetime.fromtimestamp(int(last) / 1000, UTC)
                usages[place].last_used = max(usages[place].last_used or moment, moment)
        return usages

    async def aclose(self) -> None:
        await self._redis.aclose()


def _is_newest(versioned: VersionedKey, mark: Mark) -> bool:
    newest = mark.keys.get(versioned.key.id, 0)
    if versioned.version < newest:
        logger.warning(EARLIER_RECORD, versioned.key.id)
    return versioned.version >= newest


UNUSED = (
    "Redis has virtual keys, but TOOLGATE_KEY_SECRET is not set: their requests get a 401. Set it "
    "to the value with which the keys were created."
)


EVICTED = "Redis may evict virtual keys: its maxmemory-policy is %s. Set it to noeviction."


async def warn_of_lost_keys(settings: Settings) -> None:
    """Log a warning if Redis has keys that no gateway accepts, because TOOLGATE_KEY_SECRET is not
    set, and if it may evict keys. If Redis does not respond, others report that."""
    if settings.redis_url is None:
        return
    async with _client(settings.redis_url) as client:
        with suppress(RedisError, OSError):
            if settings.key_secret is None:
                if not await client.hlen(RECORDS):
                    return
                logger.warning(UNUSED)
            memory = await client.info("memory")
            policy = str(memory.get("maxmemory_policy"))
            if policy.startswith("allkeys") and memory.get("maxmemory"):
                logger.warning(EVICTED, policy)
