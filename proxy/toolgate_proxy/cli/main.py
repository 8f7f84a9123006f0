"""The command `toolgate`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolgate_core.version import VERSION

from .app import LazyGroup, examples, new_app

app = new_app(
    name="toolgate",
    cls=LazyGroup,
    no_args_is_help=True,
    epilog=examples(
        "toolgate serve Qwen/Qwen3-8B  Redis, vLLM and the gateway on this machine",
        "toolgate chat                 a chat with it, with two tools",
        "toolgate launch claude        a coding agent with it",
        "toolgate schema tools.json    what masks enforce of your tools",
        "toolgate doctor               check this installation",
        "",
        "`toolgate COMMAND --help` describes a command.",
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolgate {VERSION}")
        raise typer.Exit


@app.callback()
def toolgate(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Schema-enforced tool calls: vLLM backends behind a LiteLLM gateway."""


def main() -> None:
    app()
