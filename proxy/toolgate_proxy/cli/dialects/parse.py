"""`toolgate parse`: converts the text of a turn to a message."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app

app = new_app()


@app.command(epilog=examples("toolgate parse --dialect hermes --tools tools.json < turn.txt"))
def parse(
    dialect: Annotated[str, typer.Option(help="Name of the dialect: see `toolgate dialects`.")],
    tools: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with tools. Their schemas give the types of arguments; calls of other "
            "tools are refused.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    reasoning_open: Annotated[
        bool, typer.Option("--reasoning-open", help="The prompt has begun the reasoning.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Convert the text of a model's turn to a message.

    It is the message that the gateway makes of it. Reads the text from standard input, from
    where the model began. One line break at its end is
    ignored. If the text is not in the dialect, the exit status is 1, and the error has the byte
    offset where the text leaves the dialect."""
    from . import parse_command

    raise typer.Exit(
        parse_command.run(
            typer.get_binary_stream("stdin").read(),
            dialect,
            tools=tools,
            reasoning_open=reasoning_open,
            as_json=as_json,
        )
    )
