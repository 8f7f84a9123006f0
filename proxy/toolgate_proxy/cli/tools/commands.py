"""`toolgate schema` and `toolgate prewarm`: tools in files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...admin.schema_coverage import SchemaReport, lines
from .. import gateway as gateways
from ..main import command, examples
from ..output import CommandFailed
from .tool_files import read_tools

Files = Annotated[
    list[Path],
    typer.Argument(
        help="JSON files with tools: requests, lists or single tools in the form of OpenAI, "
        "Anthropic or MCP; `-` for standard input.",
    ),
]
Model = Annotated[
    str | None, typer.Option(help="Use only the backends of this model (name for clients).")
]


@command(epilog=examples("toolgate prewarm tools.json --url http://127.0.0.1:4000"))
def prewarm(files: Files, url: gateways.Url = gateways.DEFAULT_URL, model: Model = None) -> None:
    """Load the grammars of tools into the backends.

    Grammars that the gateways do not know are compiled. Requires TOOLGATE_MASTER_KEY. The exit
    status is 1 unless all tools are ready."""
    all_ready = True
    for backend in _ask(url, "prewarm", tools=_tools(files), model=model):
        typer.echo(backend["backend"])
        for tool in backend["tools"]:
            ready = tool["status"] == "ready"
            all_ready &= ready
            details = [tool.get("tier"), tool.get("engine")] if ready else [tool.get("reason")]
            if ready and "compile_ms" in tool:
                details.append(f"{tool['compile_ms']:.1f} ms")
            about = ", ".join(detail for detail in details if detail)
            typer.echo(f"  {tool['name']}: {tool['status']}" + (f" ({about})" if about else ""))
    raise typer.Exit(0 if all_ready else 1)


@command(
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
            help="The model's dialect (docs/families.md). Without it, the report says in which "
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
    if as_json and not instance:
        raise typer.BadParameter("--json prints instances. Set --instance.")
    if instance and url is None:
        raise typer.BadParameter("--instance needs the masks of a backend. Set --url.")
    if dialect and url:
        raise typer.BadParameter("The backends know their dialects. Set --dialect without --url.")
    if url is None:
        from ...settings import settings
        from .local_reports import reports_without_gateway

        reports, note = reports_without_gateway(_tools(files), settings(), dialect)
        if note:
            typer.echo(note, err=True)
        raise typer.Exit(_print_reports(reports))
    # A report without a gateway does not need these modules, which import an HTTP client.
    from ...admin.schema_report import BackendSchemas, as_json_line, as_line

    values = _read_instances(instance or (), tool)
    response = _ask(url, "schema", tools=_tools(files), model=model, instances=values)
    backends = [BackendSchemas.model_validate(each) for each in response]
    status = 0
    if not as_json:
        status = _print_reports([report for each in backends for report in each.tools])
    if instance:
        written = as_json_line if as_json else as_line
        for same in zip(*(each.instances for each in backends), strict=True):
            # One line for each instance, or more if backends differ.
            typer.echo("\n".join(dict.fromkeys(map(written, same))))
        found = [report for each in backends for report in each.instances]
        right = all(report.accepted and report.valid and not report.error for report in found)
        status = 0 if right else 1
    raise typer.Exit(status)


def _print_reports(reports: Sequence[SchemaReport]) -> int:
    """Return the exit status."""
    typer.echo("\n".join(lines(reports)))
    return 0 if all(report.status == "masked" for report in reports) else 1


def _tools(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the tools in files, and print notes on those that are skipped."""
    found = read_tools(files)
    for note in found.skipped:
        typer.echo(note, err=True)
    return found.tools


def _ask(url: str, route: str, **body: Any) -> list[Any]:
    """Return the gateway's report for each backend."""
    given = {name: value for name, value in body.items() if value}
    answer = gateways.ask(url, gateways.master_key(url), f"/toolgate/{route}", given)
    backends: list[Any] = answer["backends"]
    return backends


def _read_instances(paths: Iterable[Path], tool: str | None) -> list[dict[str, Any]]:
    """Read the instances in JSON files. A file has one call's arguments, or a list of several."""
    found: list[Any] = []
    for path in paths:
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CommandFailed(f"{path} can't be read: {error}") from error
        found += value if isinstance(value, list) else [value]
    named = {"tool": tool} if tool else {}
    return [{"arguments": arguments} | named for arguments in found]
