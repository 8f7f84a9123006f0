"""`toolgate launch`: runs a coding agent with the gateway."""

from __future__ import annotations

from typing import Annotated

import typer

from ..app import PASSED_ON, examples, new_app
from ..required import require_package

app = new_app()


@app.command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate launch codex",
        'toolgate launch claude --model qwen -- -p "List the tests."',
    ),
)
def launch(
    context: typer.Context,
    client: Annotated[str, typer.Argument(help="claude, codex, opencode or qwen.")],
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    model: Annotated[
        str | None, typer.Option(help="Model name. Default: the gateway's only model.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar=["TOOLGATE_API_KEY", "TOOLGATE_MASTER_KEY"],
            help="API key of the gateway. Default for a gateway on this machine: the key that "
            "`toolgate serve` keeps.",
        ),
    ] = None,
    as_text: Annotated[
        bool, typer.Option("--print", help="Print the shell commands instead of running them.")
    ] = False,
) -> None:
    """Run a coding agent with the gateway.

    The gateway, the key and the model are set for this run only. No file is changed."""
    require_package("launch", "httpx")
    from ..master_key import api_key
    from .clients import CLIENTS, Gateway
    from .launching import NotLaunched, model_of, run, shell_lines

    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is not one of {', '.join(CLIENTS)}.")
    url = url.rstrip("/").removesuffix("/v1")
    key = api_key(url, key)
    try:
        gateway = Gateway(url, model_of(url, key, model))
        lines = shell_lines(CLIENTS[client], gateway, context.args)
        if as_text:
            typer.echo("\n".join(lines))
            return
        typer.echo("\n".join(lines), err=True)
        run(CLIENTS[client], gateway, key, context.args)
    except NotLaunched as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
