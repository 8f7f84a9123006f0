"""The keys that this process knows: all of them, in memory, by their hashes.

A request never waits for a store, and a guess never reaches one. What fills the cache and keeps it
fresh is `sync.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey

from .hashing import LONGEST, Hasher
from .key import Key, StoredSecret, now

WRONG = "Incorrect API key provided. Ask whoever runs this gateway for one."


@dataclass(frozen=True)
class _Known:
    key: Key
    secret: StoredSecret
    lasting: bool


class KeyCache:
    """`grace`: seconds for which keys are believed after the last news of them."""

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
        self._by_hash: dict[str, _Known] = {}
        self._fresh_until: float | None = None

    def find(self, sent: str) -> Key:
        """Raises InvalidKey and RetiredKey; KeysUnavailable where it can't be known any more."""
        if len(sent) > LONGEST:
            raise InvalidKey(WRONG)
        known = self._by_hash.get(self._hasher.hash(sent))
        stale = self._fresh_until is None or self._clock() > self._fresh_until
        if stale and not (known and known.lasting):
            raise KeysUnavailable(
                "Keys can't be checked: Redis does not answer. Try again shortly.", retry_after=1
            )
        if known is None:
            raise InvalidKey(WRONG)
        key, moment = known.key, self._now()
        status = key.status(moment)
        if known.secret.until is not None and known.secret.until <= moment:
            status = "rotated"
        if status != "active":
            # Who sends it has it in hand: what became of it tells a guesser nothing.
            raise RetiredKey(f"This API key is no longer valid: it is {status}. Ask for a new one.")
        return key

    def __len__(self) -> int:
        return len({known.key.id for known in self._by_hash.values()})

    def knows(self, sent: str) -> bool:
        """Whether it is a key of ours, of whatever state."""
        return len(sent) <= LONGEST and self._hasher.hash(sent) in self._by_hash

    def refreshed(self) -> None:
        """There has been news, if only that there is none."""
        self._fresh_until = self._clock() + self._grace

    def replace(self, keys: Iterable[Key], lasting: Iterable[Key] = ()) -> None:
        """`lasting` are those of the file, which need no news to be believed."""
        listed = [(key, False) for key in keys] + [(key, True) for key in lasting]
        self._by_hash = {
            secret.hash: _Known(key, secret, from_file)
            for key, from_file in listed
            for secret in key.secrets
        }
