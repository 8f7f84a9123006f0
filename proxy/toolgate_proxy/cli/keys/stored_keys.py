"""The keys in Redis, as the commands read and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError

from ...keys.key import Hasher, Key, StoredSecret, hint
from ...keys.redis_store import RedisStore, StoreConflict
from ...settings import settings
from ..output import CommandFailed

T = TypeVar("T")


def with_store(work: Callable[[RedisStore], Awaitable[T]]) -> T:
    """Run `work` with the keys in Redis."""
    url = settings().redis_url
    if url is None:
        raise CommandFailed(
            "TOOLGATE_REDIS_URL is not set. Set it to the Redis that stores the keys, or use "
            "`toolgate keys create --yaml` for keys in a file."
        )
    hashed_by = hasher()

    async def run() -> T:
        store = RedisStore(url, hashed_by)
        try:
            return await work(store)
        finally:
            await store.aclose()

    try:
        return asyncio.run(run())
    except StoreConflict as error:
        raise CommandFailed(str(error)) from error
    except (RedisError, OSError) as error:
        # The error's own message may contain the address and the password.
        raise CommandFailed(
            f"The Redis command failed ({type(error).__name__}). Check TOOLGATE_REDIS_URL and that "
            "Redis is running."
        ) from error


def change_key(name: str, change: Callable[[Key], Key]) -> Key:
    """Replace a key in Redis by its changed form, and return it."""

    async def run(store: RedisStore) -> Key:
        changed = change(await find_key(store, name))
        await store.put(changed)
        return changed

    return with_store(run)


async def find_key(store: RedisStore, name: str) -> Key:
    """Return the key with an alias or id. Raise CommandFailed if there is none."""
    key = await store.find(name)
    if key is None:
        raise CommandFailed(
            f"There is no key with the alias or id {name!r}. `toolgate keys list --all` lists all "
            "keys."
        )
    return key


def hasher() -> Hasher:
    """Return the hasher of TOOLGATE_KEY_SECRET. Raise CommandFailed if it is not set."""
    secret = settings().key_secret
    if secret is None:
        raise CommandFailed(
            "TOOLGATE_KEY_SECRET is not set. Set it to the value that all gateways use; "
            "`openssl rand -hex 32` generates one."
        )
    return Hasher(secret)


def stored_secret(secret: str) -> StoredSecret:
    return StoredSecret(hash=hasher().hash(secret), hint=hint(secret))
