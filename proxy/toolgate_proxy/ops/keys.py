"""`toolgate keys`: creates and changes virtual keys in Redis."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from ..keys.file_store import BadKeyFile, entry, read_keys
from ..keys.key import Key, Terms, new_id, new_key, now
from ..keys.redis_store import KeyUsage, RedisStore
from . import gateway as gateways
from . import stored_keys
from .cli import new_app
from .key_options import (
    Block,
    EnforcedOnly,
    Expires,
    Json,
    McpServers,
    Models,
    Name,
    SearchTools,
    Tags,
    Team,
    Url,
    Yaml,
    changes,
    duration,
    with_limits,
)
from .output import CommandFailed
from .stored_keys import change_key, find_key, hasher, stored_secret, with_store

keys = new_app(
    name="keys",
    help="Manage virtual keys, their models and limits.",
    no_args_is_help=True,
)

T = TypeVar("T")


@keys.command()
@with_limits
def create(
    alias: Annotated[str, typer.Argument(help="Name of the key in logs and tables.")],
    team: Team = None,
    model: Models = None,
    mcp_server: McpServers = None,
    search_tool: SearchTools = None,
    *,
    limits: Mapping[str, int],
    expires: Expires = None,
    tag: Tags = None,
    enforced_only: EnforcedOnly = None,
    yaml: Yaml = False,
    url: Url = gateways.DEFAULT_URL,
    json_: Json = False,
) -> None:
    """Create a key, and print it.

    The key is printed once, alone on standard output; only its hash is stored. Its settings are
    printed to standard error."""
    terms = changes(team, model, mcp_server, search_tool, expires, tag, enforced_only) | {
        "limits": limits
    }
    secret = new_key()
    fields: dict[str, Any] = {
        "id": new_id(),
        "alias": alias,
        "secrets": (stored_secret(secret),),
        "created": now(),
    }
    key = _valid(lambda: Key(terms=Terms(**terms), **fields))
    _warn_unserved(key.terms.models, url)
    if yaml:
        typer.echo(entry(key), nl=False)
        typer.echo(f"The key (shown only once): {secret}", err=True)
        return
    with_store(lambda store: store.put(key))
    _show_new(key, secret, json_)


@keys.command("list")
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
        _print_json([key.shown(now()) | usage.shown() for key, usage in listing])
    else:
        typer.echo(stored_keys.of_keys(listing, now()))


@keys.command()
def show(name: Name, json_: Json = False) -> None:
    """Show one key, its use today and its last use."""

    async def read(store: RedisStore) -> tuple[Key, KeyUsage]:
        key = await find_key(store, name)
        return key, await store.usage(key, now())

    key, usage = with_store(read)
    _show(key.shown(now()) | usage.shown(), json_)


@keys.command()
@with_limits
def update(
    name: Name,
    team: Team = None,
    model: Models = None,
    mcp_server: McpServers = None,
    search_tool: SearchTools = None,
    *,
    limits: Mapping[str, int],
    expires: Expires = None,
    tag: Tags = None,
    enforced_only: EnforcedOnly = None,
    url: Url = gateways.DEFAULT_URL,
    block: Block = None,
    json_: Json = False,
) -> None:
    """Change a key. A limit of 0 removes the limit. Other settings are unchanged."""
    new = changes(team, model, mcp_server, search_tool, expires, tag, enforced_only)
    if block is not None:
        new["blocked"] = block

    def changed(key: Key) -> Key:
        merged = key.limits.model_dump() | dict(limits)
        new_limits = {kind: limit or None for kind, limit in merged.items()}
        terms = key.terms.model_dump() | new | {"limits": new_limits}
        return key.model_copy(update={"terms": _valid(lambda: Terms(**terms))})

    key = change_key(name, changed)
    _warn_unserved(model or (), url)
    _show(key.shown(now()), json_)


@keys.command()
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

    def rotated(key: Key) -> Key:
        if key.revoked:
            raise CommandFailed(
                f"The key {name!r} is revoked and can't be rotated. Create another key."
            )
        return key.rotated(stored_secret(secret), length, now())

    _show_new(change_key(name, rotated), secret, json_)


@keys.command()
def revoke(name: Name, json_: Json = False) -> None:
    """Revoke a key for ever, at all gateways. Its alias becomes free."""
    revoked = change_key(name, lambda key: key.model_copy(update={"revoked": key.revoked or now()}))
    _show(revoked.shown(now()), json_)


@keys.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="YAML file in the format of TOOLGATE_KEYS_FILE.")],
    json_: Json = False,
) -> None:
    """Import existing keys from a file whose entries have `key` or `hash`."""
    try:
        given = read_keys(file, hasher(), clear_keys=True)
    except BadKeyFile as error:
        raise CommandFailed(str(error)) from error

    async def add(store: RedisStore) -> list[str]:
        existing = await store.all()
        known = {secret.hash for key in existing for secret in key.secrets}
        known |= {key.alias for key in existing if not key.revoked}
        added = [key for key in given if not known & {key.secrets[0].hash, key.alias}]
        for key in added:
            await store.put(key.model_copy(update={"id": new_id(), "created": now()}))
        return [key.alias for key in added]

    added = with_store(add)
    skipped = [key.alias for key in given if key.alias not in added]
    if json_:
        typer.echo(json.dumps({"imported": added, "known_already": skipped}))
        return
    typer.echo(f"Imported: {len(added)}. Skipped, because they exist already: {len(skipped)}.")


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise CommandFailed(
            f"Invalid value for `{'.'.join(map(str, first['loc']))}`: {first['msg']}."
        ) from error


def _warn_unserved(models: Sequence[str], url: str) -> None:
    for warning in gateways.unserved(models, url):
        typer.echo(warning, err=True)


def _show_new(key: Key, secret: str, as_json: bool) -> None:
    if as_json:
        _print_json(key.shown(now()) | {"key": secret})
        return
    typer.echo(secret)
    typer.echo(f"The key is printed only once.\n{stored_keys.of_one(key.shown(now()))}", err=True)


def _show(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print_json(shown)
    else:
        typer.echo(stored_keys.of_one(shown))


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))
