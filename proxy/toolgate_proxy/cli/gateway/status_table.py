"""The response of `GET /toolgate/status` as text."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 80
COLUMNS = ("model", "backend", "state", "since", "probe", "requests", "grammars")
COUNTED = {
    "fleet": "counted across all gateways",
    "process": "counted by each process alone",
    "unavailable": "not counted, because Redis does not respond",
}
STORED = {
    "fleet": "stored for all gateways",
    "process": "stored by each process alone",
    "unavailable": "not available, because Redis does not respond",
}
LEAST = 6
"""Width to which a column shrinks before it is broken into lines."""


def text(url: str, status: Mapping[str, Any]) -> str:
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        breaks = name in ("model", "backend", "state")
        rows.add_column(
            name,
            overflow="fold",
            no_wrap=not breaks,
            min_width=LEAST if breaks else None,
            justify="right" if name in ("probe", "requests", "grammars") else "left",
        )
    notes = []
    for model in status["models"]:
        if model.get("reason"):
            notes.append(f"{model['model']} is on LiteLLM's route: {model['reason']}.")
        for backend in model["backends"]:
            probe = backend.get("probe_ms")
            rows.add_row(
                model["model"],
                backend["url"].removeprefix("http://"),
                "up" if backend["up"] else f"down: {backend.get('error') or 'unknown'}",
                _time(backend.get("since")),
                "-" if probe is None else f"{probe:.0f} ms",
                str(backend["requests"]),
                str(backend["grammars_known"]),
            )
    limits, responses = status["limits"], status.get("responses")
    lines = [
        f"gateway {url}: {_count(len(status['models']), 'model')}, "
        f"{_count(status['keys'], 'key')}, {_count(limits['in_flight'], 'active request')} of "
        "limited keys",
        _print(rows),
        "",
        f"limits: {COUNTED.get(limits['counted'], limits['counted'])}",
        f"grammars: {'shared in Redis' if status['fleet_cache'] else 'not shared'}",
        *([f"responses: {STORED.get(responses, responses)}"] if responses else []),
        *notes,
    ]
    return "\n".join(lines)


def all_served(status: Mapping[str, Any]) -> bool:
    """Whether each model has a backend that is up."""
    return all(any(each["up"] for each in model["backends"]) for model in status["models"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")


def _time(since: object) -> str:
    """Seconds since 1970, or an ISO time, in UTC: the time of today, or the date."""
    if isinstance(since, int | float):
        moment = datetime.fromtimestamp(since, UTC)
    else:
        try:
            moment = datetime.fromisoformat(str(since)).astimezone(UTC)
        except ValueError:
            return "-"
    same_day = moment.date() == datetime.now(UTC).date()
    return f"{moment:%H:%M:%SZ}" if same_day else f"{moment:%Y-%m-%d}"


def _print(rows: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False, markup=False).print(rows)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
