"""`toolgate schema`: reports what masks enforce of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app
from .prewarm import Files, Model

app = new_app()


@app.command(
    epilog=examples(
        "toolgate schema tools.json",
        "toolgate schema tools.json --dialect glm47",
        "toolgate schema tools.json --url http://127.0.0.1:4000 --instance arguments.json",
    )
)
def schema(
    files: Files,
    url: Annotated[
        str | None,
        typer.Option(help="URL of a gateway, whose backends report engine and compile time."),
    ] = None,
    model: Model = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            help="The model's dialect (`toolgate dialects`). Without it, the report says in which "
            "forms of calls it holds. Not with --url.",
        ),
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

    For other tools, lists the keywords that are only validated, and how to change the schema. What
    masks enforce depends on the form in which the model writes calls. The exit status is 1 unless
    all tools are fully enforced. --url requires TOOLGATE_MASTER_KEY.

    With --instance, it is 1 unless all instances are valid and masks allow them."""
    from ...admin.schema_coverage import lines
    from .admin_client import AdminRequestFailed
    from .tool_files import read_tools

    if as_json and not instance:
        raise typer.BadParameter("--json prints instances. Set --instance.")
    if instance and url is None:
        raise typer.BadParameter("--instance needs the masks of a backend. Set --url.")
    if dialect and url:
        raise typer.BadParameter("The backends know their dialects. Set --dialect without --url.")
    told: list[str] = []
    all_right = True
    try:
        found = read_tools(files)
        for note in found.skipped:
            typer.echo(note, err=True)
        if url is None:
            from ...settings import settings
            from .local_reports import reports_without_gateway

            reports, note = reports_without_gateway(found.tools, settings(), dialect)
            if note:
                typer.echo(note, err=True)
        else:
            from ..master_key import master_key
            from . import instances

            values = instances.read_instances(instance or (), tool)
            backends = instances.send(url, master_key(url), found.tools, model, values)
            reports = [report for each in backends for report in each.tools]
            if instance:
                told, all_right = instances.lines(backends, json_lines=as_json)
    except AdminRequestFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if not as_json:
        typer.echo("\n".join(lines(reports)))
    if instance:
        typer.echo("\n".join(told))
        raise typer.Exit(0 if all_right else 1)
    raise typer.Exit(0 if all(report.status == "masked" for report in reports) else 1)
