"""`toolgate status`: models, backends, keys and limits of a running gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from . import gateway as gateways
from .cli import command, examples, table

WIDTH = 80
COLUMNS = {"model": 6, "backend": 6, "state": 6, "since": 0, "probe": 0, "requests": 0}
LIMITS = {"fleet": "counted across all gateways", "process": "counted by each process alone"}
LIMITS["unavailable"] = "not counted, because Redis does not respond"
RESPONSES = {"fleet": "stored for all gateways", "process": "stored by each process alone"}
RESPONSES["unavailable"] = "not available, because Redis does not respond"


@command(epilog=examples("toolgate status --url http://gateway:4000"))
def status(
    url: gateways.Url = gateways.DEFAULT_URL,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the response of GET /toolgate/status.")
    ] = False,
) -> None:
    """Show the models and backends of a gateway.

    Requires TOOLGATE_MASTER_KEY. The exit status is 1 if a model has no backend that is up."""
    url = gateways.root(url)
    report = gateways.ask(url, gateways.master_key(url), "/toolgate/status")
    typer.echo(json.dumps(report, indent=2) if as_json else text(url, report))
    raise typer.Exit(0 if all_served(report) else 1)


def text(url: str, status: Mapping[str, Any]) -> str:
    """Return the response of `GET /toolgate/status` as a table, with notes below it."""
    rows, notes = [], []
    for model in status["models"]:
        if model.get("reason"):
            notes.append(f"{model['model']} is on LiteLLM's route: {model['reason']}.")
        for backend in model["backends"]:
            probe = backend.get("probe_ms")
            row = (
                model["model"],
                backend["url"].removeprefix("http://"),
                "up" if backend["up"] else f"down: {backend.get('error') or 'unknown'}",
                _time(backend.get("since")),
                "-" if probe is None else f"{probe:.0f} ms",
                str(backend["requests"]),
            )
            rows.append(row)
    limits, responses = status["limits"], status.get("responses")
    numbers = (len(status["models"]), status["keys"], limits["in_flight"])
    nouns = zip(numbers, ("model", "key", "active request"), strict=True)
    counted = ", ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in nouns)
    lines = [
        f"gateway {url}: {counted} of limited keys",
        table(COLUMNS, rows, WIDTH, right=("probe", "requests")),
        "",
        f"limits: {LIMITS.get(limits['counted'], limits['counted'])}",
        f"grammars: {'shared in Redis' if status['fleet_cache'] else 'not shared'}",
        *([f"responses: {RESPONSES.get(responses, responses)}"] if responses else []),
        *notes,
    ]
    return "\n".join(lines)


def all_served(status: Mapping[str, Any]) -> bool:
    """Return whether each model has a backend that is up."""
    return all(any(each["up"] for each in model["backends"]) for model in status["models"])


def _time(since: str | None) -> str:
    """Return the time of day of a moment of today, or else its date, in UTC."""
    if since is None:
        return "-"
    moment = datetime.fromisoformat(since).astimezone(UTC)
    is_today = moment.date() == datetime.now(UTC).date()
    return f"{moment:%H:%M:%SZ}" if is_today else f"{moment:%Y-%m-%d}"
