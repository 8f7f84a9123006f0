"""The command `toolgate`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..settings import settings
from .config_check import BadConfig, check
from .keys.commands import app as keys

app = typer.Typer(
    name="toolgate",
    help="Schema-enforced tool calls: vLLM backends behind a LiteLLM gateway.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the help contains square brackets
    pretty_exceptions_show_locals=False,  # they contain keys
)
app.add_typer(keys)


@app.command()
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
    from ..server import app as gateway
    from ..stack.run_directory import RunDirectory

    if (config is None) == (not model):
        raise typer.BadParameter("Use either --config or --model.")
    if config is not None:
        try:
            warnings = check(config)
        except BadConfig as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error
        for warning in warnings:
            typer.echo(f"Warning: {warning}", err=True)
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


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def backend(context: typer.Context) -> None:
    """Start a vLLM server with the Toolgate plug-in: `toolgate backend MODEL [vLLM options]`."""
    command = [sys.executable, "-m", "toolgate_backend.launch", *context.args]
    os.execv(command[0], command)


NO_MASTER_KEY = "TOOLGATE_MASTER_KEY is not set. Set it to the master key of the gateway."
EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=EXTRA)
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model directory or Hugging Face model id.")],
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 4000,
    host: Annotated[str, typer.Option(help="Address of the gateway.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Model name for clients.")] = None,
    backend_port: Annotated[
        int | None, typer.Option(help="Port of vLLM and its /metrics. Default: a free port.")
    ] = None,
) -> None:
    """Run Redis, a backend and the gateway for one model, until Ctrl-C.

    Further options are passed to vLLM."""
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
        typer.Option(help="Model directory. Default: the demo model of the extra [demo]."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 4000,
    once: Annotated[bool, typer.Option("--once", help="Exit after the cases.")] = False,
) -> None:
    """Run six cases and a tool loop with the OpenAI SDK, and check every property.

    Requires the extra [demo], or a model directory."""
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
        list[Path], typer.Argument(help="JSON files with tools.", exists=True, dir_okay=False)
    ],
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    model: Annotated[
        str | None, typer.Option(help="Use only the backends of this model (name for clients).")
    ] = None,
) -> None:
    """Compile the grammars of tools and load them into the backends of a gateway.

    Requires TOOLGATE_MASTER_KEY. The exit status is 1 unless all tools are ready."""
    from .tools.admin_client import AdminRequestFailed, lines, read_tools, send

    key = settings().master_key
    if key is None:
        raise typer.BadParameter(NO_MASTER_KEY)
    try:
        report, all_ready = lines(send(url, key, read_tools(files), model))
    except AdminRequestFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(report))
    raise typer.Exit(0 if all_ready else 1)


@app.command()
def schema(
    files: Annotated[
        list[Path], typer.Argument(help="JSON files with tools.", exists=True, dir_okay=False)
    ],
    url: Annotated[
        str | None,
        typer.Option(help="URL of a gateway, whose backends report engine and compile time."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Use only the backends of this model (name for clients).")
    ] = None,
    instance: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSON file with the arguments of a call, or a list of them: can the model write "
            "them, and are they valid? Requires --url. Repeatable.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tool: Annotated[
        str | None, typer.Option(help="The tool of the instances, if there are several.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each instance.")
    ] = False,
) -> None:
    """Report which tools are fully enforced by masks.

    For other tools, lists the keywords that are only validated, and how to change the schema. The
    exit status is 1 unless all tools are fully enforced. --url requires TOOLGATE_MASTER_KEY.

    With --instance, it is 1 unless all instances are valid and masks allow them."""
    from ..admin import schema_report
    from .tools import instances
    from .tools.admin_client import AdminRequestFailed, read_tools, send

    if as_json and not instance:
        raise typer.BadParameter("--json prints instances. Set --instance.")
    if instance and url is None:
        raise typer.BadParameter("--instance needs the masks of a backend. Set --url.")
    try:
        values = instances.read_instances(instance or (), tool)
        tools = read_tools(files)
        backends: list[schema_report.BackendSchemas] = []
        if url is None:
            reports = schema_report.report_offline(tools, settings())
        else:
            key = settings().master_key
            if key is None:
                raise typer.BadParameter(NO_MASTER_KEY)
            response = send(url, key, tools, model, "schema", values)
            backends = [schema_report.BackendSchemas.model_validate(each) for each in response]
            reports = [report for each in backends for report in each.tools]
    except AdminRequestFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if not as_json:
        typer.echo("\n".join(schema_report.lines(reports)))
    if instance:
        told, all_right = instances.lines(backends, json_lines=as_json)
        typer.echo("\n".join(told))
        raise typer.Exit(0 if all_right else 1)
    raise typer.Exit(0 if all(report.status == "masked" for report in reports) else 1)


@app.command()
def dialects(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list, with the marks of each dialect.")
    ] = False,
) -> None:
    """List the supported forms of tool calls, with the models that use them."""
    from .dialects import listing

    typer.echo(json.dumps(listing.objects(), ensure_ascii=False) if as_json else listing.table())


@app.command()
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
    """Convert the text of an assistant's turn to the message that the gateway makes of it.

    Reads the text from standard input, from where the model began. One line break at its end is
    ignored. If the text is not in the dialect, the exit status is 1, and the error has the byte
    offset where the text leaves the dialect."""
    from .dialects import parse_command

    raise typer.Exit(
        parse_command.run(
            typer.get_binary_stream("stdin").read(),
            dialect,
            tools=tools,
            reasoning_open=reasoning_open,
            as_json=as_json,
        )
    )


@app.command(context_settings=EXTRA)
def launch(
    context: typer.Context,
    client: Annotated[str, typer.Argument(help="claude, codex, opencode or qwen.")],
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    model: Annotated[
        str | None, typer.Option(help="Model name. Default: the gateway's only model.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar=["TOOLGATE_API_KEY", "TOOLGATE_MASTER_KEY"], help="API key of the gateway."
        ),
    ] = None,
    as_text: Annotated[
        bool, typer.Option("--print", help="Print the shell commands instead of running them.")
    ] = False,
) -> None:
    """Run a coding agent with the gateway: `toolgate launch claude -- -p "List the tests."`.

    The gateway, the key and the model are set for this run only. No file is changed."""
    from .launch.clients import CLIENTS, Gateway
    from .launch.launching import NotLaunched, model_of, run, shell_lines

    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is not one of {', '.join(CLIENTS)}.")
    if not key:
        raise typer.BadParameter("Set --key or TOOLGATE_API_KEY to an API key of the gateway.")
    url = url.rstrip("/").removesuffix("/v1")
    try:
        gateway = Gateway(url, model_of(url, key, model))
        lines = shell_lines(CLIENTS[client], gateway, context.args)
        if as_text:
            typer.echo("\n".join(lines))
            return
        typer.echo("\n".join(lines), err=True)
        run(CLIENTS[client], gateway, key, context.args)
    except NotLaunched as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error


def main() -> None:
    app()
