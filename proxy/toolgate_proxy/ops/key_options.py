"""Options of `toolgate keys`, and how their values are read."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from ..keys.key import now
from ..keys.limit_kinds import KINDS

Name = Annotated[str, typer.Argument(help="Alias or id of the key.")]
Url = Annotated[
    str,
    typer.Option(
        help="URL of a gateway. If it runs, there is a warning about models that it does not serve."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Team = Annotated[str | None, typer.Option(help="Team that owns the key.")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Model that the key may use. Repeatable. Default: all models."),
]
McpServers = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp-server",
        help="MCP server that the key may use, or SERVER/TOOL for one tool. Repeatable. Default: "
        "those with `allow_all_keys`.",
    ),
]
SearchTools = Annotated[
    list[str] | None,
    typer.Option(
        "--search-tool", help="Search tool that the key may use. Repeatable. Default: all."
    ),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag of the key. Repeatable.")]
Expires = Annotated[
    str | None, typer.Option(help="When the key expires: 90d, 12h, or 2027-01-31 (UTC).")
]
EnforcedOnly = Annotated[
    bool | None,
    typer.Option(
        "--enforced-only/--any-model",
        help="Refuse models of other providers, also as fallbacks: their calls are not enforced.",
    ),
]
Yaml = Annotated[
    bool,
    typer.Option("--yaml", help="Print an entry for TOOLGATE_KEYS_FILE; do not write to Redis."),
]
Block = Annotated[
    bool | None, typer.Option("--block/--unblock", help="Refuse the key until it is unblocked.")
]


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each kind of limit, in place of its parameter `limits`, which
    gets the values of those that were used."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        limits = {kind.name: values.pop(kind.name) for kind in KINDS}
        command(**values, limits={n: v for n, v in limits.items() if v is not None})

    options = [
        inspect.Parameter(
            kind.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                int | None,
                typer.Option(kind.flag, help=f"Limit: {kind.title}."),
            ],
        )
        for kind in KINDS
    ]
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += options if name == "limits" else [parameter]
    # Typer reads both.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def changes(
    team: str | None,
    models: list[str] | None,
    mcp_servers: list[str] | None,
    search_tools: list[str] | None,
    expires: str | None,
    tags: list[str] | None,
    enforced_only: bool | None,
) -> dict[str, Any]:
    """Return the options that were used, as fields of `Terms`."""
    values = {
        "team": team,
        "models": models or None,
        "mcp_servers": mcp_servers or None,
        "search_tools": search_tools or None,
        "tags": tags or None,
        "enforced_only": enforced_only,
        "expires": moment(expires) if expires is not None else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def moment(text: str) -> datetime:
    """Read a duration from now, or a date."""
    length = duration(text)
    if length is not None:
        return now() + length
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a duration (90d, 12h) or a date (2027-01-31).",
            param_hint="--expires",
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def duration(text: str) -> timedelta | None:
    """Return None if the text is not a duration."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None:
        return None
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[match[2]]
    return timedelta(**{unit: int(match[1])})
