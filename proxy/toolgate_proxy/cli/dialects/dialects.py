"""`toolgate dialects`: lists the supported forms of tool calls."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..app import new_app

app = new_app()


@app.command()
def dialects(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list, with the marks of each dialect.")
    ] = False,
) -> None:
    """List the supported forms of tool calls.

    With the models that use them."""
    from . import listing

    typer.echo(json.dumps(listing.objects(), ensure_ascii=False) if as_json else listing.table())
