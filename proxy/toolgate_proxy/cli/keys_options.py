"""The options of `toolgate keys`, and what they mean."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from ..keys.key import Limits, now

Name = Annotated[str, typer.Argument(help="The key's alias or id.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts.")]
Team = Annotated[str | None, typer.Option(help="Who owns it.")]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="A model it may use; all if none. Repeatable.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Repeatable.")]
Rpm = Annotated[int | None, typer.Option(help="Requests a minute.")]
Tpm = Annotated[int | None, typer.Option(help="Tokens a minute.")]
Parallel = Annotated[int | None, typer.Option("--max-parallel", help="Requests at once.")]
Daily = Annotated[int | None, typer.Option("--tokens-per-day", help="Tokens a day (UTC).")]
Expires = Annotated[str | None, typer.Option(help="When: 90d, 12h, or 2027-01-31.")]


def limits(
    rpm: int | None, tpm: int | None, parallel: int | None, daily: int | None
) -> dict[str, int]:
    values = (rpm, tpm, parallel, daily)
    return {n: v for n, v in zip(Limits.model_fields, values, strict=True) if v is not None}


def changes(
    team: str | None, models: list[str] | None, expires: str | None, tags: list[str] | None
) -> dict[str, Any]:
    told: dict[str, Any] = {"team": team, "models": models or None, "tags": tags or None}
    told["expires"] = moment(expires) if expires is not None else None
    return {name: value for name, value in told.items() if value is not None}


def moment(text: str) -> datetime:
    length = duration(text)
    if length is not None:
        return now() + length
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            "It must be like 90d, 12h, or 2027-01-31.", param_hint="--expires"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def duration(text: str) -> timedelta | None:
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None:
        return None
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[match[2]]
    return timedelta(**{unit: int(match[1])})
