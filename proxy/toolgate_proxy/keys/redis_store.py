"""Virtual keys in Redis: written by the command line, read by every gateway.

`toolgate:{keys}:records`  hash: id → sealed record
`toolgate:{keys}:changes`  sorted set: id → version of its last change
`toolgate:{keys}:version`  number of changes
`toolgate:{keys}:aliases`  hash: alias → id
`toolgate:{keys}:epoch`    random, set with the first key; if it changes, Redis has lost the keys

A reader requests the changes since the last version it has read. Unlike a published message, a
change can't be missed while the reader is disconnected or starting.
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

from .hashing import Hasher
from .key import Key
from .limit_kinds import KINDS

logger = logging.getLogger(__name__)

RECORDS, CHANGES, VERSION, ALIASES, EPOCH = (
    f"toolgate:{{keys}}:{name}" for name in ("records", "changes", "version", "aliases", "epoch")
)
PUT = resources.files(__package__).joinpath("put.lua").read_text()
TIMEOUT = 5.0
"""Seconds that the command line waits for Redis."""


class StoreConflict(Exception):
    """The key can't be written: it was changed by another command, or its alias is in use."""


class RedisStore:
    """The store of the command line. `put` replaces a key only if it is as this store read it.

    Raises redis' errors."""

    def __init__(self, url: SecretStr, hasher: Hasher) -> None:
        self._redis = Redis.from_url(
            url.get_secret_value(), socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
        )
        self._hasher = hasher
        self._read: dict[str, bytes] = {}
        """Sealed records as they were read, by id."""

    async def all(self) -> list[Key]:
        records = cast(dict[bytes, bytes], await self._redis.hgetall(RECORDS))
        return opened(self._hasher, records.items())

    async def find(self, name: str) -> Key | None:
        """The key with that alias or id."""
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
        result = await self._redis.eval(
            PUT, 5, RECORDS, CHANGES, VERSION, ALIASES, EPOCH,
            key.id, self._read.get(key.id, b""), record, key.alias,
            "0" if key.revoked else "1", secrets.token_hex(8),
        )  # fmt: skip
        if result == b"alias":
            raise StoreConflict(
                f"The alias {key.alias!r} is in use by another key. Choose another alias, or "
                f"`toolgate keys revoke {key.alias!r}` first."
            )
        if result != b"ok":
            raise StoreConflict(
                f"The key {key.alias!r} was changed by another command at the same time. Check it "
                f"with `toolgate keys show {key.alias!r}`, and try again."
            )
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
    """The keys in sealed records. Records that are not valid are logged and left out."""
    keys = []
    for key_id, sealed in records:
        name = key_id.decode(errors="replace")
        record = hasher.open(name, sealed)
        try:
            if record is None:
                raise ValueError("its seal does not match TOOLGATE_KEY_SECRET")
            key = Key.model_validate_json(record)
            if key.id != name:
                raise ValueError("it is the record of another key")
            keys.append(key)
        except ValidationError:
            logger.warning(
                "The record of the key %.80r in Redis is ignored: its format is not known, for "
                "example from a newer version of Toolgate.",
                name,
            )
        except ValueError as error:
            logger.warning("The record of the key %.80r in Redis is ignored: %s.", name, error)
    return keys
