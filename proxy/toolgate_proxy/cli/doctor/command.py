"""`toolgate doctor`: checks what an installation has, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from ...settings import settings
from .. import gateway as gateways
from ..main import command, examples
from ..settings_check import invalid_settings, unknown_settings
from . import Finding, installation, servers


@command(
    epilog=examples(
        "toolgate doctor",
        "toolgate doctor --model ./models/mine      the dialect of a model",
        "TOOLGATE_BACKEND_URL=http://gpu:8000 toolgate doctor",
    )
)
def doctor(
    model: Annotated[
        Path | None, typer.Option(help="Model directory whose dialect is recognised.")
    ] = None,
    url: gateways.Url = gateways.DEFAULT_URL,
) -> None:
    """Check this installation.

    Reports versions, the GPU, the settings, Redis, the backend of TOOLGATE_BACKEND_URL, a gateway
    and the dialect of a model. The exit status is 1 if there is a problem. Secrets are not
    printed."""
    problems = 0
    for finding in _findings(model, url):
        typer.echo(finding.line)
        problems += finding.level == "problem"
    typer.echo(f"\n{problems} problem{'s' * (problems != 1)} found." if problems else "\nAll well.")
    raise typer.Exit(1 if problems else 0)


def _findings(model: Path | None, url: str) -> Iterator[Finding]:
    yield from installation.packages()
    yield from installation.machine()
    try:
        configured = settings()
    except ValidationError as error:
        for problem in invalid_settings(error):
            yield Finding("settings", problem, "problem")
    else:
        yield Finding("settings", "the TOOLGATE_ variables are valid")
        for unknown in unknown_settings():
            yield Finding("settings", unknown, "problem")
        yield servers.redis(configured)
        yield servers.backend(configured)
        yield servers.gateway(url)
    if model is not None:
        yield from installation.dialect(model)
