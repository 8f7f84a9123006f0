"""`toolgate keys`: creates and changes virtual keys in Redis."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from pydantic import ValidationError
from redis.exceptions import RedisError

from ...keys.file_store import BadKeyFile, entry, read_keys
from ...keys.hashing import Hasher, hint, new_key
from ...keys.key import Key, StoredSecret, Terms, new_id, now
from ...keys.redis_store import RedisStore, StoreConflict
from ...settings import settings
from ..app import new_app
from . import table
from .options import (
    Expires,
    Json,
    Models,
    Name,
    Tags,
    Team,
    changes,
    duration,
    with_limits,
)

app = new_app(
    name="keys",
    help="Manage virtual keys, their models and limits.",
    no_args_is_help=True,
)

T = TypeVar("T")


@app.command()
@with_limits
def create(
    alias: Annotated[str, typer.Argument(help="Name of the key in logs and tables.")],
    team: Team = None,
    model: Models = None,
    *,
    limits: Mapping[str, int],
    expires: Expires = None,
    tag: Tags = None,
    yaml: Annotated[
        bool,
        typer.Option(
            "--yaml", help="Print an entry for TOOLGATE_KEYS_FILE; do not write to Redis."
        ),
    ] = False,
    json_: Json = False,
) -> None:
    """Create a key. The key is shown once; only its hash is stored."""
    terms = changes(team, model, expires, tag)
    terms["limits"] = limits
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
        typer.echo(f"The key (shown only once): {secret}", err=True)
        return
    _with_store(lambda store: store.put(key))
    _show_new(key, secret, json_)


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Include revoked keys.")] = False,
    json_: Json = False,
) -> None:
    """List all keys. The keys themselves are not shown."""
    keys = sorted(_with_store(lambda store: store.all()), key=lambda key: key.alias)
    shown = [key for key in keys if every or not key.revoked]
    if json_:
        typer.echo(json.dumps([key.shown(now()) for key in shown], indent=2))
    else:
        typer.echo(table.of_keys(shown, now()))


@app.command()
def show(name: Name, json_: Json = False) -> None:
    """Show one key, and what it has used today."""

    async def read(store: RedisStore) -> tuple[Key, dict[str, int]]:
        key = await _found(store, name)
        return key, await store.usage(key, now())

    key, usage = _with_store(read)
    shown = key.shown(now()) | usage
    typer.echo(json.dumps(shown, indent=2) if json_ else table.of_one(shown))


@app.command()
@with_limits
def update(
    name: Name,
    team: Team = None,
    model: Models = None,
    *,
    limits: Mapping[str, int],
    expires: Expires = None,
    tag: Tags = None,
    block: Annotated[
        bool | None, typer.Option("--block/--unblock", help="Refuse the key until it is unblocked.")
    ] = None,
    json_: Json = False,
) -> None:
    """Change a key. A limit of 0 removes the limit. Other settings are unchanged."""
    new = changes(team, model, expires, tag)
    if block is not None:
        new["blocked"] = block

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        merged = key.limits.model_dump() | dict(limits)
        new_limits = {kind: limit or None for kind, limit in merged.items()}
        terms = key.terms.model_dump() | new | {"limits": new_limits}
        changed = key.model_copy(update={"terms": _valid(lambda: Terms(**terms))})
        await store.put(changed)
        return changed

    _show(_with_store(change), json_)


@app.command()
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option(help="How long the old key remains valid: 24h, 7d, 0s.")
    ] = "24h",
    json_: Json = False,
) -> None:
    """Replace a key by a new one. The old key remains valid for the overlap."""
    secret, length = new_key(), duration(overlap)
    if length is None:
        raise typer.BadParameter(
            f"{overlap!r} is not a duration, such as 24h, 7d, 30m or 0s.", param_hint="--overlap"
        )

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        if key.revoked:
            raise StoreConflict(
                f"The key {name!r} is revoked and can't be rotated. Create another key."
            )
        changed = key.rotated(_stored(secret), length, now())
        await store.put(changed)
        return changed

    _show_new(_with_store(change), secret, json_)


@app.command()
def revoke(name: Name, json_: Json = False) -> None:
    """Revoke a key for ever, at all gateways. Its alias becomes free."""

    async def change(store: RedisStore) -> Key:
        key = await _found(store, name)
        changed = key.model_copy(update={"revoked": key.revoked or now()})
        await store.put(changed)
        return changed

    _show(_with_store(change), json_)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="YAML file in the format of TOOLGATE_KEYS_FILE.")],
    json_: Json = False,
) -> None:
    """Import existing keys from a file whose entries have `key` or `hash`."""
    try:
        keys = read_keys(file, _hasher(), clear_keys=True)
    except BadKeyFile as error:
        _fail(str(error))

    async def add(store: RedisStore) -> list[str]:
        existing = await store.all()
        hashes = {secret.hash for key in existing for secret in key.secrets}
        aliases = {key.alias for key in existing if not key.revoked}
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
    typer.echo(f"Imported: {len(added)}. Skipped, because they exist already: {len(skipped)}.")


def _stored(secret: str) -> StoredSecret:
    return StoredSecret(hash=_hasher().hash(secret), hint=hint(secret))


def _hasher() -> Hasher:
    secret = settings().key_secret
    if secret is None:
        _fail(
            "TOOLGATE_KEY_SECRET is not set. Set it to the value that all gateways use; "
            "`openssl rand -hex 32` generates one."
        )
    return Hasher(secret)


async def _found(store: RedisStore, name: str) -> Key:
    key = await store.find(name)
    if key is None:
        raise StoreConflict(
            f"There is no key with the alias or id {name!r}. `toolgate keys list --all` lists all "
            "keys."
        )
    return key


def _with_store(work: Callable[[RedisStore], Awaitable[T]]) -> T:
    """Run `work` with the keys in Redis; exit with an error message if it fails."""
    url = settings().redis_url
    if url is None:
        _fail(
            "TOOLGATE_REDIS_URL is not set. Set it to the Redis that stores the keys, or use "
            "`toolgate keys create --yaml` for keys in a file."
        )
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
        # The error's own message may contain the address and the password.
        _fail(
            f"The Redis command failed ({type(error).__name__}). Check TOOLGATE_REDIS_URL and that "
            "Redis is running."
        )


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        _fail(f"Invalid value for `{'.'.join(map(str, first['loc']))}`: {first['msg']}.")


def _show_new(key: Key, secret: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(key.shown(now()) | {"key": secret}, indent=2))
        return
    typer.echo(table.of_one(key.shown(now())))
    typer.echo(f"\nThe key (shown only once): {secret}")


def _show(key: Key, as_json: bool) -> None:
    shown = key.shown(now())
    typer.echo(json.dumps(shown, indent=2) if as_json else table.of_one(shown))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(2)
