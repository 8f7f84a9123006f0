"""`toolgate keys`: virtual keys in Redis, made and changed from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from pydantic import ValidationError
from redis.exceptions import RedisError

from ..keys.file_store import BadKeyFile, entry, read_keys
from ..keys.hashing import Hasher, hint, new_key
from ..keys.key import Key, StoredSecret, Terms, new_id, now
from ..keys.redis_store import RedisStore, StoreConflict
from ..settings import settings
from . import keys_table
from .keys_options import (
    Daily,
    Expires,
    Json,
    Models,
    Name,
    Parallel,
    Rpm,
    Tags,
    Team,
    Tpm,
    changes,
    duration,
    limits,
)

app = typer.Typer(
    name="keys",
    help="Virtual keys: who may use which models, and how much.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

T = TypeVar("T")


@app.command()
def create(
    alias: Annotated[str, typer.Argument(help="What logs and tables call it.")],
    team: Team = None,
    model: Models = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_parallel: Parallel = None,
    tokens_per_day: Daily = None,
    expires: Expires = None,
    tag: Tags = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print an entry for TOOLGATE_KEYS_FILE instead.")
    ] = False,
    json_: Json = False,
) -> None:
    """Make a key. It is shown this once, and stored as a hash."""
    terms = changes(team, model, expires, tag)
    terms["limits"] = limits(rpm, tpm, max_parallel, tokens_per_day)
    secret = new_key()
    key = _valid(
        lambda: Key(
            id=new_id(),
            alias=alias,
            terms=Terms(**terms),
            secrets=(_stored(secret),),
            created=now(),
        )
    )
    if yaml:
        typer.echo(entry(key), nl=False)
        typer.echo(f"The key, shown only now: {secret}", err=True)
        return
    _with_store(lambda store: store.put(key))
    _show_new(key, secret, json_)


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Revoked ones as well.")] = False,
    json_: Json = False,
) -> None:
    """All keys: what they are, never the keys themselves."""
    keys = sorted(_with_store(lambda store: store.all()), key=lambda key: key.alias)
    shown = [key for key in keys if every or not key.revoked]
    if json_:
        typer.echo(json.dumps([key.shown(now()) for key in shown], indent=2))
    else:
        typer.echo(keys_table.of_keys(shown, now()))


@app.command()
def show(name: Name, json_: Json = False) -> None:
    """One key, and the tokens it has used today."""
    today = (now() - datetime(1970, 1, 1, tzinfo=UTC)).days

    async def read(store: RedisStore) -> tuple[Key, int]:
        key = await _found(store, name)
        return key, await store.tokens_today(key.id, today)

    key, used = _with_store(read)
    told = key.shown(now()) | {"tokens_today": used}
    typer.echo(json.dumps(told, indent=2) if json_ else keys_table.of_one(told))


@app.command()
def update(
    name: Name,
    team: Team = None,
    model: Models = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    max_parallel: Parallel = None,
    tokens_per_day: Daily = None,
    expires: Expires = None,
    tag: Tags = None,
    block: Annotated[
        bool | None, typer.Option("--block/--unblock", help="Refuse it until it is unblocked.")
    ] = None,
    json_: Json = False,
) -> None:
    """Change what a key may do; 0 lifts a limit. What is not named stays."""
    new_limits = limits(rpm, tpm, max_parallel, tokens_per_day)
    new = changes(team, model, expires, tag)
    if block is not None:
        new["blocked"] = block

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        held = key.limits.model_dump() | new_limits
        terms = key.terms.model_dump() | new | {"limits": {n: v or None for n, v in held.items()}}
        changed = key.model_copy(update={"terms": _valid(lambda: Terms(**terms))})
        await store.put(changed)
        return changed

    _show(_with_store(change), json_)


@app.command()
def rotate(
    name: Name,
    overlap: Annotated[str, typer.Option(help="How long the old key still works: 24h, 7d, 0s.")] = (
        "24h"
    ),
    json_: Json = False,
) -> None:
    """Give a key's holder a new key; the old one works for a while yet."""
    secret, length = new_key(), duration(overlap)
    if length is None:
        raise typer.BadParameter("It must be like 24h, 7d, 30m or 0s.", param_hint="--overlap")

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        if key.revoked:
            raise StoreConflict(f"{name!r} is revoked; make another one.")
        changed = key.rotated(_stored(secret), length, now())
        await store.put(changed)
        return changed

    _show_new(_with_store(change), secret, json_)


@app.command()
def revoke(name: Name, json_: Json = False) -> None:
    """End a key, everywhere and at once. Its alias may be given to another."""

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        changed = key.model_copy(update={"revoked": key.revoked or now()})
        await store.put(changed)
        return changed

    _show(_with_store(change), json_)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="YAML, in the form of TOOLGATE_KEYS_FILE.")],
    json_: Json = False,
) -> None:
    """Take over keys there are already, from a file with `key:` or `hash:` in each entry."""
    try:
        keys = read_keys(file, _hasher(), clear_keys=True)
    except BadKeyFile as error:
        _fail(str(error))

    async def add(store: RedisStore) -> list[str]:
        held = await store.all()
        hashes = {secret.hash for key in held for secret in key.secrets}
        aliases = {key.alias for key in held if not key.revoked}
        added = []
        for key in keys:
            if key.secrets[0].hash in hashes or key.alias in aliases:
                continue
            await store.put(key.model_copy(update={"id": new_id(), "created": now()}))
            added.append(key.alias)
        return added

    added = _with_store(add)
    skipped = [key.alias for key in keys if key.alias not in added]
    if json_:
        typer.echo(json.dumps({"imported": added, "known_already": skipped}))
        return
    typer.echo(f"{len(added)} imported, {len(skipped)} known already.")


def _stored(secret: str) -> StoredSecret:
    return StoredSecret(hash=_hasher().hash(secret), hint=hint(secret))


def _hasher() -> Hasher:
    held = settings().key_secret
    if held is None:
        _fail("Set TOOLGATE_KEY_SECRET, the same for every gateway: openssl rand -hex 32")
    return Hasher(held)


async def _found(store: RedisStore, name: str) -> Key:
    key = await store.find(name)
    if key is None:
        raise StoreConflict(f"There is no key {name!r}.")
    return key


def _with_store(work: Callable[[RedisStore], Awaitable[T]]) -> T:
    """Does it in Redis, or ends with a sentence that says what to do."""
    url = settings().redis_url
    if url is None:
        _fail("Set TOOLGATE_REDIS_URL, where the keys are kept; or see `keys create --yaml`.")
    hasher = _hasher()

    async def run() -> T:
        store = RedisStore(url, hasher)
        try:
            return await work(store)
        finally:
            await store.aclose()

    try:
        return asyncio.run(run())
    except StoreConflict as error:
        _fail(str(error))
    except (RedisError, OSError) as error:
        # By its kind alone: its message may quote the address, and the password in it.
        _fail(f"Redis does not do as it is asked ({type(error).__name__}); see TOOLGATE_REDIS_URL.")


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        _fail(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.")


def _show_new(key: Key, secret: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(key.shown(now()) | {"key": secret}, indent=2))
        return
    typer.echo(keys_table.of_one(key.shown(now())))
    typer.echo(f"\nThe key, shown only now: {secret}")


def _show(key: Key, as_json: bool) -> None:
    told = key.shown(now())
    typer.echo(json.dumps(told, indent=2) if as_json else keys_table.of_one(told))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(2)
