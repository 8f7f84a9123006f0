"""The command `toolgate` as a group: the module of a command is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "serve": "start.serve",
    "demo": "start.demo",
    "chat": "chat.command",
    "launch": "launch.command",
    "proxy": "start.proxy",
    "backend": "start.backend",
    "keys": "keys.commands",
    "status": "gateway.status",
    "schema": "tools.schema",
    "prewarm": "tools.prewarm",
    "doctor": "doctor.command",
    "dialects": "dialects.dialects",
    "parse": "dialects.parse",
    "verify": "verify",
    "audit": "audit.command",
}
"""The modules of the commands in this package, in the order of `toolgate --help`. Each has an
`app`."""


class LazyGroup(TyperGroup):
    """Imports only the command that runs. Importing all of them takes longer than most."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = import_module(f"{__package__}.{module}")
        command = typer.main.get_command(found.app)
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Invalid settings are errors of the user, not of the command."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            from .invalid_settings import invalid_settings

            problems = invalid_settings(error)
            if not problems:
                raise
            for problem in problems:
                typer.echo(problem, err=True)
            ctx.exit(2)


def new_app(**options: Any) -> typer.Typer:
    """The app of one command, or of a group of commands."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # the help contains square brackets
        pretty_exceptions_show_locals=False,  # they contain keys
        **options,
    )


def examples(*lines: str) -> str:
    """An epilog with commands, which is not wrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""`context_settings` of commands that pass unknown options on."""
