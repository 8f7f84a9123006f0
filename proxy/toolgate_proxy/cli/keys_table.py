"""Keys as tables for people."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..keys.key import Key

WIDTH = 140
COLUMNS = (
    "alias",
    "key",
    "team",
    "models",
    "rpm",
    "tpm",
    "parallel",
    "tokens/day",
    "expires",
    "status",
)


def of_keys(keys: Sequence[Key], now: datetime) -> str:
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for key in keys:
        limits, expires = key.limits, key.terms.expires
        numbers = (limits.rpm, limits.tpm, limits.max_parallel_requests, limits.tokens_per_day)
        table.add_row(
            key.alias,
            " ".join(secret.hint for secret in key.secrets),
            key.terms.team or "-",
            " ".join(key.terms.models) or "all",
            *("-" if number is None else str(number) for number in numbers),
            f"{expires:%Y-%m-%d %H:%M}" if expires else "-",
            key.status(now),
        )
    return _text(table)


def of_one(told: dict[str, Any]) -> str:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in told.items():
        if name == "keys":
            value = [
                each["hint"] + (f" until {each['until']}" if "until" in each else "")
                for each in value
            ]
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), shown or "-")
    return _text(table)


def _text(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
