"""`toolgate keys`: creates, changes and lists virtual keys in Redis."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from redis.exceptions import RedisError

from ..keys.file_store import entry, read_keys
from ..keys.key import Hasher, Key, StoredSecret, Terms, hint, new_id, new_key, now
from ..keys.limit_kinds import KINDS
from ..keys.redis_store import KeyUsage, RedisStore, StoreConflict
from ..settings import settings
from ..yaml_files import BadFile
from . import CommandFailed
from .cli import new_app, table

ABOUT = "Manage virtual keys, their models and limits."
keys = new_app(name="keys", help=ABOUT, no_args_is_help=True)

T = TypeVar("T")
Name = Annotated[str, typer.Argument(help="Alias or id of the key.")]
YAML = "Print an entry for TOOLGATE_KEYS_FILE; do not write to Redis."
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _option(kind: Any, about: str, *flags: str) -> Any:
    return Annotated[kind | None, typer.Option(*flags, help=about)]


OPTIONS: dict[str, Any] = {
    "team": _option(str, "Team that owns the key."),
    "models": _option(
        list[str], "Model that the key may use. Repeatable. Default: all models.", "--model"
    ),
    "mcp_servers": _option(
        list[str],
        "MCP server that the key may use, or SERVER/TOOL for one tool. Repeatable. Default: "
        "those with `allow_all_keys`.",
        "--mcp-server",
    ),
    "search_tools": _option(
        list[str], "Search tool that the key may use. Repeatable. Default: all.", "--search-tool"
    ),
    **{kind.name: _option(int, f"Limit: {kind.title}.", kind.flag) for kind in KINDS},
    "expires": _option(str, "When the key expires: 90d, 12h, or 2027-01-31 (UTC)."),
    "tags": _option(list[str], "Tag of the key. Repeatable.", "--tag"),
    "enforced_only": _option(
        bool,
        "Refuse models of other providers, also as fallbacks: their calls are not enforced.",
        "--enforced-only/--any-model",
    ),
}
"""The options that set the terms of a key, by the field of `Terms` or the kind of limit."""


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options in OPTIONS in place of its parameter `terms`, which gets the
    values of those that were used, as fields of `Terms`."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        terms = {name: values.pop(name) for name in OPTIONS}
        terms = {name: value for name, value in terms.items() if value not in (None, [])}
        limits = {kind.name: terms.pop(kind.name) for kind in KINDS if kind.name in terms}
        if "expires" in terms:
            terms["expires"] = moment(terms["expires"])
        command(**values, terms={**terms, "limits": limits})

    signature = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in OPTIONS.items()
    ]
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += options if name == "terms" else [parameter]
    # Typer reads both.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def moment(text: str) -> datetime:
    """Read a duration from now, or a date."""
    length = duration(text)
    if length is not None:
        return now() + length
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        text = f"{text!r} is not a duration (90d, 12h) or a date (2027-01-31)."
        raise typer.BadParameter(text, param_hint="--expires") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def duration(text: str) -> timedelta | None:
    """Return None if the text is not a duration."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None:
        return None
    seconds = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[match[2]]
    return timedelta(seconds=int(match[1]) * seconds)


@keys.command()
@with_terms
def create(
    alias: Annotated[str, typer.Argument(help="Name of the key in logs and tables.")],
    *,
    terms: dict[str, Any],
    yaml: Annotated[bool, typer.Option("--yaml", help=YAML)] = False,
    json_: Json = False,
) -> None:
    """Create a key, and print it.

    The key is printed once, alone on standard output; only its hash is stored. Its settings are
    printed to standard error."""
    secret = new_key()
    fields = {"id": new_id(), "alias": alias, "created": now(), "secrets": (_stored(secret),)}
    key = _valid(lambda: Key.model_validate({**fields, "terms": Terms(**terms)}))
    if yaml:
        typer.echo(entry(key), nl=False)
        typer.echo(f"The key (shown only once): {secret}", err=True)
        return
    with_store(lambda store: store.put(key))
    _show(key, json_, secret=secret)


@keys.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Include revoked keys.")] = False,
    json_: Json = False,
) -> None:
    """List all keys, with their use today and their last use.

    The keys themselves are not shown."""

    async def read(store: RedisStore) -> list[tuple[Key, KeyUsage]]:
        keys = sorted(await store.all(), key=lambda key: key.alias)
        entries = [key for key in keys if every or not key.revoked]
        return list(zip(entries, await store.usages(entries, now()), strict=True))

    listing = with_store(read)
    entries = [key.shown(now()) | usage.shown() for key, usage in listing]
    typer.echo(json.dumps(entries, indent=2) if json_ else of_keys(listing, now()))


@keys.command()
def show(name: Name, json_: Json = False) -> None:
    """Show one key, its use today and its last use."""

    async def read(store: RedisStore) -> tuple[Key, KeyUsage]:
        key = await _find(store, name)
        return key, (await store.usages([key], now()))[0]

    key, usage = with_store(read)
    _show(key, json_, usage=usage)


@keys.command()
@with_terms
def update(
    name: Name,
    *,
    terms: dict[str, Any],
    block: Annotated[
        bool | None, typer.Option("--block/--unblock", help="Refuse the key until it is unblocked.")
    ] = None,
    json_: Json = False,
) -> None:
    """Change a key. A limit of 0 removes the limit. Other settings are unchanged."""
    if block is not None:
        terms["blocked"] = block

    def changed(key: Key) -> Key:
        limits = key.limits.model_dump() | terms["limits"]
        new = key.terms.model_dump() | terms
        new["limits"] = {kind: limit or None for kind, limit in limits.items()}
        return key.model_copy(update={"terms": _valid(lambda: Terms(**new))})

    _show(_change(name, changed), json_)


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
        text = f"{overlap!r} is not a duration, such as 24h, 7d, 30m or 0s."
        raise typer.BadParameter(text, param_hint="--overlap")

    def rotated(key: Key) -> Key:
        if key.revoked:
            raise CommandFailed(f"The key {name!r} is revoked. Create another key.")
        return key.rotated(_stored(secret), length, now())

    _show(_change(name, rotated), json_, secret=secret)


@keys.command()
def revoke(name: Name, json_: Json = False) -> None:
    """Revoke a key for ever, at all gateways. Its alias becomes free."""
    _show(
        _change(name, lambda key: key.model_copy(update={"revoked": key.revoked or now()})), json_
    )


@keys.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="YAML file in the format of TOOLGATE_KEYS_FILE.")],
    json_: Json = False,
) -> None:
    """Import existing keys from a file whose entries have `key` or `hash`."""
    try:
        imported = read_keys(file, _hasher(), clear_keys=True)
    except BadFile as error:
        raise CommandFailed(str(error)) from error

    async def add(store: RedisStore) -> list[str]:
        existing = await store.all()
        known = {secret.hash for key in existing for secret in key.secrets}
        known |= {key.alias for key in existing if not key.revoked}
        added = [key for key in imported if not known & {key.secrets[0].hash, key.alias}]
        for key in added:
            await store.put(key.model_copy(update={"id": new_id(), "created": now()}))
        return [key.alias for key in added]

    added = with_store(add)
    skipped = [key.alias for key in imported if key.alias not in added]
    as_json = json.dumps({"imported": added, "known_already": skipped})
    text = f"Imported: {len(added)}. Skipped, because they exist already: {len(skipped)}."
    typer.echo(as_json if json_ else text)


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandFailed(f"Invalid value for `{place}`: {first['msg']}.") from error


def with_store(work: Callable[[RedisStore], Awaitable[T]]) -> T:
    """Run `work` with the keys in Redis."""
    url = settings().redis_url
    if url is None:
        raise CommandFailed(
            "TOOLGATE_REDIS_URL is not set. Set it to the Redis that stores the keys, or use "
            "`toolgate keys create --yaml` for keys in a file."
        )
    hashed_by = _hasher()

    async def run() -> T:
        async with aclosing(RedisStore(url, hashed_by)) as store:
            return await work(store)

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


def _change(name: str, change: Callable[[Key], Key]) -> Key:
    """Replace a key in Redis by its changed form, and return it."""

    async def run(store: RedisStore) -> Key:
        changed = change(await _find(store, name))
        await store.put(changed)
        return changed

    return with_store(run)


async def _find(store: RedisStore, name: str) -> Key:
    """Return the key with an alias or id. Raise CommandFailed if there is none."""
    if (key := await store.find(name)) is None:
        hint = "`toolgate keys list --all` lists all keys."
        raise CommandFailed(f"There is no key with the alias or id {name!r}. {hint}")
    return key


def _hasher() -> Hasher:
    """Return the hasher of TOOLGATE_KEY_SECRET. Raise CommandFailed if it is not set."""
    if (secret := settings().key_secret) is None:
        raise CommandFailed(
            "TOOLGATE_KEY_SECRET is not set. Set it to the value that all gateways use; "
            "`openssl rand -hex 32` generates one."
        )
    return Hasher(secret)


def _stored(secret: str) -> StoredSecret:
    return StoredSecret(hash=_hasher().hash(secret), hint=hint(secret))


def _show(key: Key, as_json: bool, *, secret: str = "", usage: KeyUsage | None = None) -> None:
    """`secret`: of a new key, which is alone on standard output."""
    fields = key.shown(now()) | (usage.shown() if usage is not None else {})
    if as_json:
        typer.echo(json.dumps(fields | ({"key": secret} if secret else {}), indent=2))
    elif secret:
        typer.echo(secret)
        typer.echo(f"The key is printed only once.\n{of_one(fields)}", err=True)
    else:
        typer.echo(of_one(fields))


WIDTH = 80
"""Width of the list, in characters."""
COLUMNS = {"alias": 9, "key": 0, "models": 6, "limits": 0, "today": 0, "last use": 0, "status": 0}
MULTIPLES = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def of_keys(keys: Iterable[tuple[Key, KeyUsage]], now: datetime) -> str:
    """Return the table of `toolgate keys list`."""
    rows = []
    for key, usage in keys:
        columns = [(kind.column, key.limits.of(kind)) for kind in KINDS]
        limits = [f"{column} {short(limit)}" for column, limit in columns if limit is not None]
        if (expires := key.terms.expires) is not None:
            limits.append(f"until {expires:%Y-%m-%d}")
        row = (
            key.alias + (f" ({key.terms.team})" if key.terms.team else ""),
            "\n".join(secret.hint for secret in key.secrets),
            "\n".join(key.terms.models) or "all",
            "\n".join(limits) or "-",
            "\n".join(_used(name, number) for name, number in usage.today.items()) or "-",
            _ago(usage.last_used, now),
            key.status(now),
        )
        rows.append(row)
    return table(COLUMNS, rows, WIDTH)


def of_one(fields: dict[str, Any]) -> str:
    """Return the lines of `toolgate keys show`. `fields`: the result of `Key.shown`."""
    lines = []
    for name, value in fields.items():
        if name == "keys":
            value = [" until ".join([each["hint"], each.get("until", "")]) for each in value]
            value = [each.removesuffix(" until ") for each in value]
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(f"{name.replace('_', ' '):{max(map(len, fields))}}  {text or '-'}")
    return "\n".join(lines)


def short(number: int, *, exact: bool = True) -> str:
    """Return at most four digits: 5M, 1.2M, 100k. Smaller numbers are written out, and if the text
    must be `exact`, other long ones too."""
    for multiple, letter in MULTIPLES:
        if number >= multiple and (not exact or number * 10 % multiple == 0):
            return f"{number / multiple:{'g' if exact else '.3g'}}{letter}"
    return str(number)


def _used(name: str, number: int) -> str:
    """Return `0`, or `1.2k` and `tokens` below it for `tokens_today`."""
    unit = name.removesuffix("_today").replace("_", " ")
    return f"{short(number, exact=False)}\n{unit}" if number else "0"


def _ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "-"
    seconds = max(0, (now - moment).total_seconds())
    for length, letter in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {letter} ago"
    return f"{seconds:.0f} s ago"
