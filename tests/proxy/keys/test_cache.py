"""Cached keys: which key a request has, and how long it is valid."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.servers.virtual_keys import HASHER, key_of, stored
from tests.support.waiting import NOON, Clock
from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.key import Key, hint, new_key


def cache_of(*keys: Key, clock: Clock | None = None) -> KeyCache:
    clock = clock or Clock()
    key_cache = KeyCache(HASHER, grace=300, wall_clock=clock.wall, clock=clock)
    key_cache.replace(keys)
    key_cache.confirm()
    return key_cache


def test_expired_blocked_and_revoked_keys_are_rejected() -> None:
    clock = Clock()
    expiring, blocked, revoked = new_key(), new_key(), new_key()
    key_cache = cache_of(
        key_of(expiring, expires=NOON + timedelta(seconds=10)),
        key_of(blocked, blocked=True),
        key_of(revoked).model_copy(update={"revoked": NOON}),
        clock=clock,
    )
    assert key_cache.find(expiring)
    clock.seconds += 10
    for sent, word in ((expiring, "expired"), (blocked, "blocked"), (revoked, "revoked")):
        with pytest.raises(InvalidKey, match=word):
            key_cache.find(sent)


def test_rotated_key_and_its_successor_overlap() -> None:
    clock, old, new, newest = Clock(), new_key(), new_key(), new_key()
    key = key_of(old).rotated(stored(new), timedelta(hours=1), NOON)
    key_cache = cache_of(key, clock=clock)
    assert key_cache.find(old).id == key_cache.find(new).id == key.id
    clock.seconds += 3600
    key_cache.confirm()
    with pytest.raises(InvalidKey, match="rotated"):
        key_cache.find(old)
    assert key_cache.find(new)
    later = NOON + timedelta(hours=2)
    again = key.rotated(stored(newest), timedelta(hours=1), later)
    assert [secret.hint for secret in again.secrets] == [hint(newest), hint(new)]
    assert len(key.rotated(stored(newest), timedelta(0), NOON).secrets) == 1


def test_cached_keys_expire_after_the_grace_period() -> None:
    clock, sent, from_file = Clock(), new_key(), new_key()
    key_cache = cache_of(clock=clock)
    key_cache.replace([key_of(sent)], from_file=[key_of(from_file)])
    clock.seconds += 300
    assert key_cache.find(sent)
    clock.seconds += 1
    for unsure in (sent, new_key()):
        with pytest.raises(KeysUnavailable):
            key_cache.find(unsure)
    assert key_cache.find(from_file)
    key_cache.confirm()
    assert key_cache.find(sent)


def test_only_revoked_blocked_and_removed_keys_end_running_responses() -> None:
    clock, sent = Clock(), new_key()
    key = key_of(sent, expires=NOON + timedelta(seconds=10))
    key_cache = cache_of(key, clock=clock)
    clock.seconds += 20
    key_cache.require_current(key)
    key_cache.replace([key.rotated(stored(new_key()), timedelta(0), NOON)])
    key_cache.require_current(key)
    blocked = key.model_copy(update={"terms": key.terms.model_copy(update={"blocked": True})})
    revoked = key.model_copy(update={"revoked": NOON})
    lists: tuple[list[Key], ...] = ([revoked], [blocked], [])
    for keys, word in zip(lists, ("revoked", "blocked", "removed"), strict=True):
        key_cache.replace(keys)
        with pytest.raises(RetiredKey, match=f"was {word} during the response"):
            key_cache.require_current(key)
