"""The keys in Redis, as the commands read, change and show them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from redis.exceptions import RedisError
from rich.table import Table

from ..keys.key import Hasher, Key, StoredSecret, hint
from ..keys.limit_kinds import KINDS
from ..keys.redis_store import KeyUsage, RedisStore, StoreConflict
from ..settings import settings
from .output import CommandFailed, new_table, table_text

WIDTH = 80
"""Width of the list, in columns of a terminal."""
ONE_WIDTH = 140
COLUMNS = {"alias": 9, "key": 0, "models": 6, "limits": 0, "today": 0, "last use": 0, "status": 0}
"""The columns, with the least width of those that may be broken into lines."""
MULTIPLES = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def of_keys(keys: Iterable[tuple[Key, KeyUsage]], now: datetime) -> str:
    """Return the table of `toolgate keys list`."""
    table = new_table()
    for name, least in COLUMNS.items():
        table.add_column(name, overflow="fold", no_wrap=not least, min_width=least or None)
    for key, usage in keys:
        team = f" ({key.terms.team})" if key.terms.team else ""
        limits = [
            f"{kind.column} {short(limit)}"
            for kind in KINDS
            if (limit := key.limits.of(kind)) is not None
        ]
        if (expires := key.terms.expires) is not None:
            limits.append(f"until {expires:%Y-%m-%d}")
        table.add_row(
            f"{key.alias}{team}",
            "\n".join(secret.hint for secret in key.secrets),
            "\n".join(key.terms.models) or "all",
            "\n".join(limits) or "-",
            "\n".join(_used(name, number) for name, number in usage.today.items()) or "-",
            _ago(usage.last_used, now),
            key.status(now),
        )
    return table_text(table, WIDTH)


def of_one(shown: dict[str, Any]) -> str:
    """Return the table of `toolgate keys show`. `shown`: the result of `Key.shown`."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in shown.items():
        if name == "keys":
            value = [
                each["hint"] + (f" until {each['until']}" if "until" in each else "")
                for each in value
            ]
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), text or "-")
    return table_text(table, ONE_WIDTH)


def short(number: int) -> str:
    """Return at most four digits: 5M, 1.2M, 100k. Smaller numbers and other long ones are written
    out."""
    for multiple, letter in MULTIPLES:
        if number >= multiple and number * 10 % multiple == 0:
            return f"{number / multiple:g}{letter}"
    return str(number)


def _used(name: str, number: int) -> str:
    """Return `0`, or `1.2k` and `tokens` below it for `tokens_today`."""
    if not number:
        return "0"
    unit = name.removesuffix("_today").replace("_", " ")
    for multiple, letter in MULTIPLES:
        if number >= multiple:
            return f"{number / multiple:.3g}{letter}\n{unit}"
    return f"{number}\n{unit}"


def _ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "-"
    seconds = max(0, (now - moment).total_seconds())
    for length, letter in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {letter} ago"
    return f"{seconds:.0f} s ago"


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
