"""Access to the keys in Redis for the command line; errors end the command."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import typer
from redis.exceptions import RedisError

from ...keys.hashing import Hasher, hint
from ...keys.key import Key, StoredSecret
from ...keys.redis_store import RedisStore, StoreConflict
from ...settings import settings

T = TypeVar("T")


def stored(secret: str) -> StoredSecret:
    return StoredSecret(hash=hasher().hash(secret), hint=hint(secret))


def hasher() -> Hasher:
    secret = settings().key_secret
    if secret is None:
        fail(
            "TOOLGATE_KEY_SECRET is not set. Set it to the value that all gateways use; "
            "`openssl rand -hex 32` generates one."
        )
    return Hasher(secret)


async def found(store: RedisStore, name: str) -> Key:
    key = await store.find(name)
    if key is None:
        raise StoreConflict(
            f"There is no key with the alias or id {name!r}. `toolgate keys list --all` lists all "
            "keys."
        )
    return key


def with_store(work: Callable[[RedisStore], Awaitable[T]]) -> T:
    """Run `work` with the keys in Redis; exit with an error message if it fails."""
    url = settings().redis_url
    if url is None:
        fail(
            "TOOLGATE_REDIS_URL is not set. Set it to the Redis that stores the keys, or use "
            "`toolgate keys create --yaml` for keys in a file."
        )
    made = hasher()

    async def run() -> T:
        store = RedisStore(url, made)
        try:
            return await work(store)
        finally:
            await store.aclose()

    try:
        return asyncio.run(run())
    except StoreConflict as error:
        fail(str(error))
    except (RedisError, OSError) as error:
        # The error's own message may contain the address and the password.
        fail(
            f"The Redis command failed ({type(error).__name__}). Check TOOLGATE_REDIS_URL and that "
            "Redis is running."
        )


def fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(2)
