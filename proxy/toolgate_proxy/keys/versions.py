"""Versions of key records, so that nobody can put back an earlier record of a key.

The seal of a record shows that the command line wrote it, but not that it is the newest: whoever
can write to Redis could replace the record of a revoked key by the one before. So each record has
its version under its seal, and a mark lists the newest version of every key. The mark is sealed,
too, and is written together with each record. A gateway accepts no record that is older than the
mark, or than it has seen.

A version is the time of the write in milliseconds, or one more than the last version if that is
later. So versions do not come again if Redis has lost its last writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .key import Hasher, Key

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
    """Return the keys in records, by their ids. Records that are not valid are logged and left
    out."""
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
