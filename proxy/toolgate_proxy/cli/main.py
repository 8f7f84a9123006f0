"""The command line, `toolgate`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..settings import settings
from .config_check import BadConfig, check
from .keys import app as keys

app = typer.Typer(
    name="toolgate",
    help="Tool calls that cannot be malformed: vLLM behind a LiteLLM gateway.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the help has square brackets in it
    pretty_exceptions_show_locals=False,  # they would show keys
)
app.add_typer(keys)


@app.command()
def proxy(
    config: Annotated[
        Path | None,
        typer.Option(help="LiteLLM's configuration file.", exists=True, dir_okay=False),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model without a configuration file: NAME[=BACKEND_MODEL][@URL]. Repeatable.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 4000,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
) -> None:
    """Start the gateway. Its key comes from TOOLGATE_MASTER_KEY."""
    from ..server import app as gateway

    if (config is None) == (not model):
        raise typer.BadParameter("Give either --config or --model.")
    if config is not None:
        try:
            doubts = check(config)
        except BadConfig as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error
        for doubt in doubts:
            typer.echo(f"Warning: {doubt}", err=True)
        gateway.serve(config, host=host, port=port, workers=workers)
        return
    if settings().master_key is None:
        raise typer.BadParameter("Set TOOLGATE_MASTER_KEY: without it anyone would be let in.")
    try:
        routes = [gateway.Route.parse(text) for text in model or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error
    written = gateway.write_config(routes)
    try:
        gateway.serve(written, host=host, port=port, workers=workers)
    finally:
        written.unlink(missing_ok=True)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def backend(context: typer.Context) -> None:
    """Start vLLM's server with our plug-in: `toolgate backend MODEL [vLLM's options]`."""
    command = [sys.executable, "-m", "toolgate_backend.launch", *context.args]
    os.execv(command[0], command)


EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=EXTRA)
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A model directory or hub id.")],
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 4000,
    host: Annotated[str, typer.Option(help="Address of the gateway.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="What clients call the model.")] = None,
    backend_port: Annotated[
        int | None, typer.Option(help="Port of vLLM, for its /metrics; any free one by default.")
    ] = None,
) -> None:
    """Redis, backend and gateway for a model, until Ctrl-C. Further options go to vLLM."""
    from ..stack.serve import serve as run
    from ..stack.stack import StackOptions

    options = StackOptions(
        model=model,
        port=port,
        host=host,
        served_name=name,
        backend_port=backend_port,
        backend_flags=context.args,
    )
    raise typer.Exit(run(options))


@app.command(context_settings=EXTRA)
def demo(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(help="A model directory. Default: the demo model of the extra [demo]."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 4000,
    once: Annotated[bool, typer.Option("--once", help="End after the cases.")] = False,
) -> None:
    """The six cases and a tool loop through the OpenAI SDK, every property checked. Needs the extra
    [demo]."""
    from ..demo.model import MISSING, NAME, directory, is_shipped

    chosen = model or directory()
    if chosen is None:
        typer.echo(MISSING, err=True)
        raise typer.Exit(2)
    from ..demo.run import demo as run
    from ..stack.stack import StackOptions

    chosen = str(chosen)
    name = NAME if is_shipped(chosen) else None
    options = StackOptions(model=chosen, port=port, served_name=name, backend_flags=context.args)
    raise typer.Exit(run(options, once=once))


@app.command()
def prewarm(
    files: Annotated[
        list[Path], typer.Argument(help="JSON files of tools.", exists=True, dir_okay=False)
    ],
    url: Annotated[str, typer.Option(help="The gateway.")] = "http://127.0.0.1:4000",
    model: Annotated[
        str | None, typer.Option(help="Only the backends of this model, as clients name it.")
    ] = None,
) -> None:
    """Compile tool sets and load them into the backends. The key is TOOLGATE_MASTER_KEY."""
    from .admin_client import PrewarmFailed, lines, read_tools, send

    key = settings().master_key
    if key is None:
        raise typer.BadParameter("Set TOOLGATE_MASTER_KEY, the gateway's master key.")
    try:
        said, all_ready = lines(send(url, key, read_tools(files), model))
    except PrewarmFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(said))
    raise typer.Exit(0 if all_ready else 1)


@app.command()
def schema(
    files: Annotated[
        list[Path], typer.Argument(help="JSON files of tools.", exists=True, dir_okay=False)
    ],
    url: Annotated[
        str | None, typer.Option(help="A gateway, whose backends tell engine and cost.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Only the backends of this model, as clients name it.")
    ] = None,
) -> None:
    """Say which tools are wholly masked, and what of the others is checked and how to change it.

    Ends with status 1 unless all are masked. With --url the key is TOOLGATE_MASTER_KEY."""
    from ..admin import schema_report
    from .admin_client import PrewarmFailed, read_tools, send

    try:
        tools = read_tools(files)
        if url is None:
            reports = schema_report.alone(tools, settings())
        else:
            key = settings().master_key
            if key is None:
                raise typer.BadParameter("Set TOOLGATE_MASTER_KEY, the gateway's master key.")
            told = send(url, key, tools, model, "schema")
            backends = [schema_report.BackendSchemas.model_validate(each) for each in told]
            reports = [report for each in backends for report in each.tools]
    except PrewarmFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(schema_report.lines(reports)))
    raise typer.Exit(0 if all(report.status == "masked" for report in reports) else 1)


def main() -> None:
    app()
