"""`toolgate demo`: cases with the OpenAI SDK on a stack of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from ..app import PASSED_ON, examples, new_app
from ..required import require

app = new_app()
PORT = 4000


@app.command(context_settings=PASSED_ON, epilog=examples("toolgate demo --once"))
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

    Runs six cases and a tool loop with the OpenAI SDK, and checks every property. Then it samples a
    tool 50 times, without enforcement and with it. Requires the extra [demo], or a model
    directory."""
    require("demo", "proxy", "backend", "demo")
    from ...demo.model import NAME, directory, is_shipped
    from ...stack.extras import install_command

    chosen = model or directory()
    if chosen is None:
        install = install_command("demo")
        message = f"The demo model is not installed: run {install}, or choose --model DIR."
        typer.echo(message, err=True)
        raise typer.Exit(2)
    from ...demo.run import demo as run
    from ...stack.processes import free_port, in_use
    from ...stack.stack import StackOptions

    if port is None:
        port = free_port() if once and in_use("127.0.0.1", PORT) else PORT
    chosen = str(chosen)
    name = NAME if is_shipped(chosen) else None
    options = StackOptions(model=chosen, port=port, served_name=name, backend_flags=context.args)
    raise typer.Exit(run(options, once=once))
