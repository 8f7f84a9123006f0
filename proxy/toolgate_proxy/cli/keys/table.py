"""Keys as tables, for `toolgate keys list` and `show`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ...keys.key import Key
from ...keys.limit_kinds import KINDS

WIDTH = 140
COLUMNS = (
    "alias",
    "key",
    "team",
    "models",
    *(kind.column for kind in KINDS),
    "expires",
    "status",
)


def of_keys(keys: Sequence[Key], now: datetime) -> str:
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for key in keys:
        limits, expires = [key.limits.of(kind) for kind in KINDS], key.terms.expires
        table.add_row(
            key.alias,
            " ".join(secret.hint for secret in key.secrets),
            key.terms.team or "-",
            " ".join(key.terms.models) or "all",
            *("-" if limit is None else str(limit) for limit in limits),
            f"{expires:%Y-%m-%d %H:%M}" if expires else "-",
            key.status(now),
        )
    return _text(table)


def of_one(shown: dict[str, Any]) -> str:
    """`shown`: from `Key.shown`."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in shown.items():
        if name == "keys":
            value = [
                each["hint"] + (f" until {each['until']}" if "until" in each else "")
                for each in value
            ]
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), text or "-")
    return _text(table)


def _text(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
