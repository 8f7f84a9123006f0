"""All virtual keys, in the memory of this process, by their hashes.

Requests are authenticated from this cache alone: they never wait for Redis, and wrong keys never
reach it. `sync.py` fills the cache and keeps it fresh.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey

from .key import MAX_LENGTH, Hasher, Key, StoredSecret, now

WRONG_KEY = "Incorrect API key provided. Ask the administrator of this gateway for an API key."


@dataclass(frozen=True)
class _CachedSecret:
    key: Key
    secret: StoredSecret
    from_file: bool


class KeyCache:
    """`grace`: seconds for which keys remain valid after Redis responded last."""

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
        """Return the key of a request. Raises InvalidKey, RetiredKey, and KeysUnavailable if the
        cache is stale."""
        if len(sent) > MAX_LENGTH:
            raise InvalidKey(WRONG_KEY)
        cached = self._by_hash.get(self._hasher.hash(sent))
        stale = self._fresh_until is None or self._clock() > self._fresh_until
        if stale and not (cached and cached.from_file):
            raise KeysUnavailable(
                "API keys can't be checked, because they could not be read from Redis. Try again "
                "shortly.",
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
