"""Virtual keys for tests, made as the command line makes them."""

from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.http_client import http_client
from tests.support.waiting import until
from toolgate_proxy.keys.file_store import entry
from toolgate_proxy.keys.key import (
    Hasher,
    Key,
    Limits,
    StoredSecret,
    Terms,
    hint,
    new_id,
    new_key,
    now,
)
from toolgate_proxy.keys.redis_store import RedisStore

HASHER = Hasher(SecretStr(KEY_SECRET))


def stored(sent: str) -> StoredSecret:
    return StoredSecret(hash=HASHER.hash(sent), hint=hint(sent))


def key_of(sent: str, alias: str | None = None, **terms: Any) -> Key:
    """Limits among the terms go where they belong."""
    limits = Limits(**{n: terms.pop(n) for n in Limits.model_fields if n in terms})
    key_id = new_id()
    return Key(
        id=key_id,
        alias=alias or key_id,
        terms=Terms(limits=limits, **terms),
        secrets=(stored(sent),),
        created=now(),
    )


def key_file(path: Path, **teams: str | None) -> dict[str, str]:
    """Writes a file of new keys, for TOOLGATE_KEYS_FILE. `teams`: the team of each alias. Returns
    the keys by alias."""
    keys = {alias: new_key() for alias in teams}
    entries = (entry(key_of(sent, alias, team=teams[alias])) for alias, sent in keys.items())
    path.write_text("keys:\n" + "".join(entries))
    return keys


def store(redis_url: str) -> RedisStore:
    return RedisStore(SecretStr(redis_url), HASHER)


async def put(redis_url: str, key: Key) -> None:
    """Replaces what there is of that key."""
    keys = store(redis_url)
    await keys.find(key.id)
    await keys.put(key)
    await keys.aclose()


async def make_key(redis_url: str, *gateways: str, **terms: Any) -> tuple[str, Key]:
    """A new key that those gateways know already."""
    sent = new_key()
    key = key_of(sent, **terms)
    await put(redis_url, key)
    for url in gateways:
        await until_status(url, sent, 200)
    return sent, key


async def until_status(url: str, sent: str, status: int) -> None:
    async with http_client(url, sent) as http:
        ask = partial(http.get, "/v1/models")
        await until(ask, holds=lambda response: response.status_code == status)
