"""`toolgate backend`: starts a vLLM server with the plug-in."""

from __future__ import annotations

import os
import sys

import typer

from ..app import new_app
from ..required import require

app = new_app()


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def backend(context: typer.Context) -> None:
    """Start a vLLM server with the Toolgate plug-in.

    `toolgate backend MODEL [vLLM options]`"""
    require("backend", "backend")
    command = [sys.executable, "-m", "toolgate_backend.launch", *context.args]
    os.execv(command[0], command)
