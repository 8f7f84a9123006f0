"""Keys in Redis: written by the command line, read by every gateway.

`toolgate:{keys}:records`  hash: id → sealed record
`toolgate:{keys}:changes`  sorted set: id → the version that changed it last
`toolgate:{keys}:version`  counts changes
`toolgate:{keys}:aliases`  hash: alias → id
`toolgate:{keys}:epoch`    made with the first key; another one, or none, means another Redis

A reader asks for what changed since the version it knows. Unlike a message that is published, a
change can't be missed: not while the reader is disconnected, not while it starts.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from datetime import datetime
from importlib import resources
from typing import cast

from pydantic import SecretStr, ValidationError
from redis.asyncio import Redis

from ..limits.kinds import KINDS
from .hashing import Hasher
from .key import Key

logger = logging.getLogger(__name__)

RECORDS, CHANGES, VERSION, ALIASES, EPOCH = (
    f"toolgate:{{keys}}:{name}" for name in ("records", "changes", "version", "aliases", "epoch")
)
PUT = resources.files(__package__).joinpath("put.lua").read_text()
TIMEOUT = 5.0
"""Seconds that the command line waits for Redis."""


class StoreConflict(Exception):
    """The key was changed by someone else meanwhile, or its alias is another key's."""


class RedisStore:
    """For the command line. A key that was read here and is put again replaces what was read.

    Raises redis' errors."""

    def __init__(self, url: SecretStr, hasher: Hasher) -> None:
        self._redis = Redis.from_url(
            url.get_secret_value(), socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
        )
        self._hasher = hasher
        self._read: dict[str, bytes] = {}

    async def all(self) -> list[Key]:
        held = cast(dict[bytes, bytes], await self._redis.hgetall(RECORDS))
        return opened(self._hasher, held.items())

    async def find(self, name: str) -> Key | None:
        """By id or by alias."""
        alias = await self._redis.hget(ALIASES, name)
        key_id = alias.decode() if isinstance(alias, bytes) else name
        sealed = await self._redis.hget(RECORDS, key_id)
        if not isinstance(sealed, bytes):
            return None
        self._read[key_id] = sealed
        return next(iter(opened(self._hasher, [(key_id.encode(), sealed)])), None)

    async def put(self, key: Key) -> None:
        """Raises StoreConflict."""
        record = self._hasher.seal(key.id, key.model_dump_json(exclude_defaults=True).encode())
        said = await self._redis.eval(
            PUT, 5, RECORDS, CHANGES, VERSION, ALIASES, EPOCH,
            key.id, self._read.get(key.id, b""), record, key.alias,
            "0" if key.revoked else "1", secrets.token_hex(8),
        )  # fmt: skip
        if said == b"alias":
            raise StoreConflict(f"There is a key of the alias {key.alias!r} already.")
        if said != b"ok":
            raise StoreConflict(f"{key.alias!r} was changed by someone else; look, and try again.")
        self._read[key.id] = record

    async def usage(self, key: Key, at: datetime) -> dict[str, int]:
        """Use of the current day, by names such as `tokens_today`."""
        usage: dict[str, int] = {}
        for kind in KINDS:
            counted = kind.counted_for == "every key" or key.limits.of(kind) is not None
            if kind.usage_field is not None and counted:
                period = int(at.timestamp() * 1000) // kind.window.milliseconds
                used = await self._redis.hget(kind.redis_key(key.id), str(period))
                usage[kind.usage_field] = int(used or 0)
        return usage

    async def aclose(self) -> None:
        await self._redis.aclose()


def opened(hasher: Hasher, records: Iterable[tuple[bytes, bytes]]) -> list[Key]:
    """The keys of those records that are ours; the others are as if they were not there."""
    keys = []
    for key_id, sealed in records:
        name = key_id.decode(errors="replace")
        record = hasher.open(name, sealed)
        try:
            if record is None:
                raise ValueError("its seal is broken, or of another TOOLGATE_KEY_SECRET")
            key = Key.model_validate_json(record)
            if key.id != name:
                raise ValueError("it is another key's")
            keys.append(key)
        except ValidationError:
            logger.warning("The key %.80r in Redis is left out: its form is not known.", name)
        except ValueError as error:
            logger.warning("The key %.80r in Redis is left out: %s.", name, error)
    return keys
