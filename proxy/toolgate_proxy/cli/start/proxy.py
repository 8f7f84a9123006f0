"""`toolgate proxy`: starts the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app
from ..required import require

app = new_app()


@app.command(
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
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 4000,
    workers: Annotated[int, typer.Option(help="Number of gateway processes.", min=1)] = 1,
) -> None:
    """Start the gateway. TOOLGATE_MASTER_KEY sets its master key."""
    if (config is None) == (not model):
        raise typer.BadParameter("Use either --config or --model.")
    require("proxy", "proxy")
    from toolgate_core.importing import importing
    from toolgate_core.run_directory import RunDirectory

    from ...server import app as gateway
    from ...server.logs import event_log
    from ...settings import settings
    from ...stack.processes import PortInUse, check_port
    from ..config_check import BadConfig, check
    from ..unknown_settings import unknown_settings

    try:
        check_port(host, port, "--port")  # before the imports of LiteLLM, which take seconds
    except PortInUse as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    as_json = settings().log_format == "json"
    event_log.warn(unknown_settings(), as_json=as_json)
    if config is not None:
        gateway.set_defaults()  # the check imports LiteLLM
        try:
            with importing():
                warnings = check(config)
        except BadConfig as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error
        event_log.warn(warnings, as_json=as_json)
        gateway.serve(config, host=host, port=port, workers=workers)
        return
    if settings().master_key is None:
        raise typer.BadParameter(
            "TOOLGATE_MASTER_KEY is not set. Without a master key the gateway would accept all "
            "requests."
        )
    try:
        routes = [gateway.Route.parse(text) for text in model or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error
    with RunDirectory() as directory:
        written = gateway.write_config(routes, directory.path)
        gateway.serve(written, host=host, port=port, workers=workers)
