"""The commands that start one program: `toolgate proxy`, `backend` and `verify`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from . import CommandFailed, extras
from .cli import PASSED_ON, command, examples
from .gateway import PORT


@command(
    epilog=examples(
        "toolgate proxy --config litellm_config.yaml",
        "toolgate proxy --model qwen@http://gpu:8000",
    )
)
def proxy(
    config: Annotated[
        Path | None,
        typer.Option(help="LiteLLM configuration file.", exists=True, dir_okay=False),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model to serve without a configuration file: NAME[=BACKEND_MODEL][@URL]. "
            "Repeatable.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = PORT,
    workers: Annotated[int, typer.Option(help="Number of gateway processes.", min=1)] = 1,
) -> None:
    """Start the gateway. TOOLGATE_MASTER_KEY sets its master key."""
    if (config is None) == (not model):
        raise typer.BadParameter("Use either --config or --model.")
    extras.check("`toolgate proxy`", "proxy")
    from toolgate_core.run_directory import RunDirectory

    from ..server import launcher, logs
    from ..settings import settings
    from .configuration import check, unknown_settings
    from .stack.processes import check_port

    try:
        check_port(host, port, "--port")  # before the imports of LiteLLM, which take seconds
    except CommandFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    logs.warn(unknown_settings(), as_json=settings().log_format == "json")
    if config is not None:
        check(config)
        launcher.serve(config, host=host, port=port, workers=workers)
        return
    if settings().master_key is None:
        raise typer.BadParameter(
            "TOOLGATE_MASTER_KEY is not set. Without a master key the gateway would accept all "
            "requests."
        )
    try:
        routes = [launcher.Route.parse(text) for text in model or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error
    with RunDirectory() as directory:
        written = launcher.write_config(routes, directory.path)
        launcher.serve(written, host=host, port=port, workers=workers)


@command(context_settings=PASSED_ON, add_help_option=False)
def backend(context: typer.Context) -> None:
    """Start a vLLM server with the Toolgate plug-in.

    `toolgate backend MODEL [vLLM options]`"""
    extras.check("`toolgate backend`", "backend")
    arguments = [sys.executable, "-m", "toolgate_backend.launch", *context.args]
    os.execv(arguments[0], arguments)


def _verify() -> None:
    """Verify that an endpoint keeps the rules of its API. Requires the extra [verify]."""
    extras.check("`toolgate verify`", "verify")


if find_spec("toolgate_verify") is not None:
    from toolgate_verify.cli import app as verify
else:
    verify = command(context_settings=PASSED_ON)(_verify)
