"""`toolgate prewarm`: compiles grammars before requests need them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app

Files = Annotated[
    list[Path],
    typer.Argument(
        help="JSON files with tools: requests, lists or single tools in the form of OpenAI, "
        "Anthropic or MCP; `-` for standard input.",
    ),
]
Model = Annotated[
    str | None, typer.Option(help="Use only the backends of this model (name for clients).")
]

app = new_app()


@app.command(epilog=examples("toolgate prewarm tools.json --url http://127.0.0.1:4000"))
def prewarm(
    files: Files,
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    model: Model = None,
) -> None:
    """Load the grammars of tools into the backends.

    Grammars that the gateways do not know are compiled. Requires TOOLGATE_MASTER_KEY. The exit
    status is 1 unless all tools are ready."""
    from ..master_key import master_key
    from .admin_client import AdminRequestFailed, lines, send
    from .tool_files import read_tools

    try:
        found = read_tools(files)
        for note in found.skipped:
            typer.echo(note, err=True)
        report, all_ready = lines(send(url, master_key(url), found.tools, model))
    except AdminRequestFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(report))
    raise typer.Exit(0 if all_ready else 1)
