"""`toolgate status`: models, backends, keys and limits of a running gateway."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..app import examples, new_app

app = new_app()


@app.command(epilog=examples("toolgate status --url http://gateway:4000"))
def status(
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the response of GET /toolgate/status.")
    ] = False,
) -> None:
    """Show the models and backends of a gateway.

    Requires TOOLGATE_MASTER_KEY. The exit status is 1 if a model has no backend that is up."""
    from ..master_key import master_key
    from ..tools.admin_client import AdminRequestFailed, get
    from . import status_table

    url = url.rstrip("/").removesuffix("/v1")
    try:
        found = get(url, master_key(url), "status")
    except AdminRequestFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(json.dumps(found, indent=2) if as_json else status_table.text(url, found))
    raise typer.Exit(0 if status_table.all_served(found) else 1)
