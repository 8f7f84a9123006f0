"""The command `toolgate`: a group that imports the module of a command when it runs, and what the
modules of commands share."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from toolgate_core.version import VERSION

from . import CommandFailed

COMMANDS = {
    "serve": "serve",
    "demo": "demo",
    "launch": "launch",
    "proxy": "proxy",
    "backend": "proxy",
    "keys": "keys",
    "status": "status",
    "schema": "schema",
    "prewarm": "schema",
    "dialects": "dialects",
    "verify": "proxy",
}
"""The modules of the commands in this package, in the order of `toolgate --help`. The command has
its name in the module."""


class LazyGroup(TyperGroup):
    """Imports only the command that runs. Importing all of them takes longer than most."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (module := COMMANDS.get(cmd_name)) is None:
            return None
        app = getattr(import_module(f"{__package__}.{module}"), cmd_name)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Print the errors of users as lines, without a traceback, and exit with status 2."""
        try:
            return super().invoke(ctx)
        except CommandFailed as error:
            lines = [str(error)]
        except ValueError as error:
            from .configuration import invalid_settings

            lines = invalid_settings(error)
            if not lines:
                raise
        for line in lines:
            typer.echo(line, err=True)
        raise typer.Exit(2)


def new_app(**options: Any) -> typer.Typer:
    """Make the app of one command, or of a group of commands."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # the help contains square brackets
        pretty_exceptions_show_locals=False,  # they contain keys
        **options,
    )


def command(**options: Any) -> Callable[[Callable[..., None]], typer.Typer]:
    """Make a function the only command of an app."""

    def decorate(function: Callable[..., None]) -> typer.Typer:
        app = new_app()
        app.command(**options)(function)
        return app

    return decorate


def examples(*lines: str) -> str:
    """Return an epilog with commands, which is not wrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""`context_settings` of commands that pass unknown options on."""


def table(
    columns: Mapping[str, int],
    rows: Iterable[Sequence[str]],
    width: int,
    right: Collection[str] = (),
) -> str:
    """Return a table as lines of at most `width` characters. `columns`: each with the least width
    to which it may shrink before it is broken into lines, or 0 if it must not be broken. `right`:
    those with numbers."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, least in columns.items():
        how: Any = {"no_wrap": not least, "min_width": least or None, "overflow": "fold"}
        grid.add_column(name, justify="right" if name in right else "left", **how)
    for row in rows:
        grid.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


app = new_app(
    name="toolgate",
    cls=LazyGroup,
    no_args_is_help=True,
    epilog=examples(
        "toolgate serve Qwen/Qwen3-8B  Redis, vLLM and the gateway on this machine",
        "toolgate launch claude        a coding agent with it",
        "toolgate schema tools.json    what masks enforce of your tools",
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
