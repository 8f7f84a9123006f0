"""`toolgate doctor`: checks what an installation has, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app

app = new_app()


@app.command(
    epilog=examples(
        "toolgate doctor",
        "toolgate doctor --model ./models/mine      the dialect of a model",
        "toolgate doctor --backend http://gpu:8000 --no-probes",
    )
)
def doctor(
    model: Annotated[
        Path | None, typer.Option(help="Model directory whose dialect is recognised.")
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="URL of a backend. Repeatable. Default: TOOLGATE_BACKEND_URL."),
    ] = None,
    url: Annotated[str, typer.Option(help="URL of a gateway.")] = "http://127.0.0.1:4000",
    probes: Annotated[
        bool,
        typer.Option(
            help="Import vLLM and LiteLLM, and check the private names that Toolgate uses. Takes "
            "seconds."
        ),
    ] = True,
) -> None:
    """Check this installation.

    Reports versions, the GPU, the settings, Redis, backends, a gateway and the dialect of a model.
    The exit status is 1 if there is a problem. Secrets are not printed."""
    from pydantic import ValidationError

    from ...settings import settings
    from ..invalid_settings import invalid_settings
    from ..unknown_settings import unknown_settings
    from . import dialect, host_probes, machine, redis_check, servers, versions
    from .finding import Finding

    found: list[Finding] = []

    def report(finding: Finding) -> None:
        found.append(finding)
        typer.echo(finding.line)

    started = host_probes.start() if probes else None  # they run while the others do
    for finding in (*versions.check(), *machine.check()):
        report(finding)
    try:
        configured = settings()
    except ValidationError as error:
        for problem in invalid_settings(error):
            report(Finding("settings", problem, "problem"))
    else:
        report(Finding("settings", "the TOOLGATE_ variables are valid"))
        for unknown in unknown_settings():
            report(Finding("settings", unknown, "problem"))
        report(redis_check.check(configured))
        for finding in servers.backends(backend, configured):
            report(finding)
        report(servers.gateway(url))
    if model is not None:
        for finding in dialect.check(model):
            report(finding)
    for finding in started.results() if started else ():
        report(finding)
    problems = sum(each.level == "problem" for each in found)
    typer.echo(f"\n{problems} problem{'s' * (problems != 1)} found." if problems else "\nAll well.")
    raise typer.Exit(1 if problems else 0)
