"""`toolgate keys`: creates and changes virtual keys in Redis."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from ...keys.file_store import BadKeyFile, entry, read_keys
from ...keys.hashing import new_key
from ...keys.key import Key, Terms, new_id, now
from ...keys.redis_store import KeyUsage, RedisStore, StoreConflict
from ..app import new_app
from . import served_models, table
from .options import (
    LOCAL_GATEWAY,
    EnforcedOnly,
    Expires,
    Json,
    Models,
    Name,
    Tags,
    Team,
    Url,
    changes,
    duration,
    with_limits,
)
from .store_access import fail, found, hasher, stored, with_store

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
    enforced_only: EnforcedOnly = None,
    yaml: Annotated[
        bool,
        typer.Option(
            "--yaml", help="Print an entry for TOOLGATE_KEYS_FILE; do not write to Redis."
        ),
    ] = False,
    url: Url = LOCAL_GATEWAY,
    json_: Json = False,
) -> None:
    """Create a key, and print it.

    The key is printed once, alone on standard output; only its hash is stored. Its settings are
    printed to standard error."""
    terms = changes(team, model, expires, tag, enforced_only)
    terms["limits"] = limits
    secret = new_key()
    key = _valid(
        lambda: Key(
            id=new_id(),
            alias=alias,
            terms=Terms(**terms),
            secrets=(stored(secret),),
            created=now(),
        )
    )
    for warning in served_models.warnings(key.terms.models, url):
        typer.echo(warning, err=True)
    if yaml:
        typer.echo(entry(key), nl=False)
        typer.echo(f"The key (shown only once): {secret}", err=True)
        return
    with_store(lambda store: store.put(key))
    _show_new(key, secret, json_)


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Include revoked keys.")] = False,
    json_: Json = False,
) -> None:
    """List all keys, with their use today and their last use.

    The keys themselves are not shown."""

    async def read(store: RedisStore) -> list[tuple[Key, KeyUsage]]:
        keys = sorted(await store.all(), key=lambda key: key.alias)
        shown = [key for key in keys if every or not key.revoked]
        return list(zip(shown, await store.usages(shown, now()), strict=True))

    listing = with_store(read)
    if json_:
        listed = [key.shown(now()) | usage.shown() for key, usage in listing]
        typer.echo(json.dumps(listed, indent=2))
    else:
        typer.echo(table.of_keys([key for key, _ in listing], [use for _, use in listing], now()))


@app.command()
def show(name: Name, json_: Json = False) -> None:
    """Show one key, its use today and its last use."""

    async def read(store: RedisStore) -> tuple[Key, KeyUsage]:
        key = await found(store, name)
        return key, await store.usage(key, now())

    key, usage = with_store(read)
    shown = key.shown(now()) | usage.shown()
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
    enforced_only: EnforcedOnly = None,
    url: Url = LOCAL_GATEWAY,
    block: Annotated[
        bool | None, typer.Option("--block/--unblock", help="Refuse the key until it is unblocked.")
    ] = None,
    json_: Json = False,
) -> None:
    """Change a key. A limit of 0 removes the limit. Other settings are unchanged."""
    new = changes(team, model, expires, tag, enforced_only)
    if block is not None:
        new["blocked"] = block

    async def change(store: RedisStore) -> Key:
        key = await found(store, name)
        merged = key.limits.model_dump() | dict(limits)
        new_limits = {kind: limit or None for kind, limit in merged.items()}
        terms = key.terms.model_dump() | new | {"limits": new_limits}
        changed = key.model_copy(update={"terms": _valid(lambda: Terms(**terms))})
        await store.put(changed)
        return changed

    changed = with_store(change)
    for warning in served_models.warnings(model or (), url):
        typer.echo(warning, err=True)
    _show(changed, json_)


@app.command()
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option(help="How long the old key remains valid: 24h, 7d, 0s.")
    ] = "24h",
    json_: Json = False,
) -> None:
    """Replace a key by a new one, and print it.

    The old key remains valid for the overlap."""
    secret, length = new_key(), duration(overlap)
    if length is None:
        raise typer.BadParameter(
            f"{overlap!r} is not a duration, such as 24h, 7d, 30m or 0s.", param_hint="--overlap"
        )

    async def change(store: RedisStore) -> Key:
        key = await found(store, name)
        if key.revoked:
            raise StoreConflict(
                f"The key {name!r} is revoked and can't be rotated. Create another key."
            )
        changed = key.rotated(stored(secret), length, now())
        await store.put(changed)
        return changed

    _show_new(with_store(change), secret, json_)


@app.command()
def revoke(name: Name, json_: Json = False) -> None:
    """Revoke a key for ever, at all gateways. Its alias becomes free."""

    async def change(store: RedisStore) -> Key:
        key = await found(store, name)
        changed = key.model_copy(update={"revoked": key.revoked or now()})
        await store.put(changed)
        return changed

    _show(with_store(change), json_)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="YAML file in the format of TOOLGATE_KEYS_FILE.")],
    json_: Json = False,
) -> None:
    """Import existing keys from a file whose entries have `key` or `hash`."""
    try:
        keys = read_keys(file, hasher(), clear_keys=True)
    except BadKeyFile as error:
        fail(str(error))

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

    added = with_store(add)
    skipped = [key.alias for key in keys if key.alias not in added]
    if json_:
        typer.echo(json.dumps({"imported": added, "known_already": skipped}))
        return
    typer.echo(f"Imported: {len(added)}. Skipped, because they exist already: {len(skipped)}.")


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        fail(f"Invalid value for `{'.'.join(map(str, first['loc']))}`: {first['msg']}.")


def _show_new(key: Key, secret: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(key.shown(now()) | {"key": secret}, indent=2))
        return
    typer.echo(secret)
    typer.echo(f"The key is printed only once.\n{table.of_one(key.shown(now()))}", err=True)


def _show(key: Key, as_json: bool) -> None:
    shown = key.shown(now())
    typer.echo(json.dumps(shown, indent=2) if as_json else table.of_one(shown))
