"""`toolgate schema` and `toolgate prewarm`: tools in files.

Without a gateway, `toolgate schema` reports by the backend's own compiler. It runs in a process of
its own, because the gateway imports no engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from toolgate_core.dialects.registry import DIALECTS, REPRESENTATIVES
from toolgate_core.tools import Tool
from toolgate_core.wire import GrammarVerdict

from ..settings import Settings, settings
from . import CommandFailed
from . import gateway as gateways
from .admin import reports
from .admin.reports import BackendSchemas, SchemaReport
from .admin.tools import UnknownForm, read_document
from .cli import command, examples

COMPILER = "toolgate_backend.grammars.offline"
ENGINE = "llguidance"
ALL_FORMS = "all forms"
_MISSING = (
    f"{ENGINE} is not installed, so this tells what the keywords of the schemas allow. A form of "
    f"calls may allow less. For that, install {ENGINE}."
)
FILES = (
    "JSON files with tools: requests, lists or single tools in the form of OpenAI, Anthropic or "
    "MCP; `-` for standard input."
)
Files = Annotated[list[Path], typer.Argument(help=FILES)]
Model = Annotated[
    str | None, typer.Option(help="Use only the backends of this model (name for clients).")
]


@command(epilog=examples("toolgate prewarm tools.json --url http://127.0.0.1:4000"))
def prewarm(files: Files, url: gateways.Url = gateways.DEFAULT_URL, model: Model = None) -> None:
    """Load the grammars of tools into the backends.

    Grammars that the gateways do not know are compiled. Requires TOOLGATE_MASTER_KEY. The exit
    status is 1 unless all tools are loaded."""
    all_ready = True
    for backend in map(BackendSchemas.model_validate, _ask(url, "prewarm", _tools(files), model)):
        typer.echo(backend.backend)
        for tool in backend.tools:
            all_ready &= tool.status in ("masked", "checked")
            typer.echo(f"  {tool.title}")
    raise typer.Exit(0 if all_ready else 1)


@command(
    epilog=examples(
        "toolgate schema tools.json",
        "toolgate schema tools.json --dialect glm47",
        "toolgate schema tools.json --url http://127.0.0.1:4000",
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
) -> None:
    """Report which tools are fully enforced by masks.

    For other tools, lists the keywords that are only validated, and how to change the schema. What
    masks enforce depends on the form in which the model writes calls. The exit status is 1 unless
    all tools are fully enforced. --url requires TOOLGATE_MASTER_KEY."""
    if dialect and url:
        raise typer.BadParameter("The backends know their dialects. Set --dialect without --url.")
    if url is None:
        results, note = reports_without_gateway(_tools(files), settings(), dialect)
        if note:
            typer.echo(note, err=True)
    else:
        backends = map(BackendSchemas.model_validate, _ask(url, "schema", _tools(files), model))
        results = [report for each in backends for report in each.tools]
    typer.echo("\n".join(reports.lines(results)))
    raise typer.Exit(0 if all(report.status == "masked" for report in results) else 1)


def _ask(url: str, route: str, tools: Sequence[object], model: str | None) -> list[Any]:
    """Return the gateway's report for each backend."""
    body = {"tools": tools} | ({"model": model} if model else {})
    answer = gateways.ask(url, gateways.master_key(url), f"/toolgate/{route}", body)
    backends: list[Any] = answer["backends"]
    return backends


def reports_without_gateway(
    entries: Sequence[object], settings: Settings, dialect: str | None
) -> tuple[list[SchemaReport], str]:
    """Return the reports, for a dialect or for all forms of calls, and a note about them, which is
    empty if there is none. Raise CommandFailed."""
    tools, invalid = reports.read_entries(entries, settings)
    with_calls = sorted(name for name, each in DIALECTS.items() if each.calls is not None)
    if dialect is not None and dialect not in with_calls:
        raise CommandFailed(f"There is no dialect {dialect!r}. Known are: {', '.join(with_calls)}.")
    if find_spec(ENGINE) is None:
        if dialect is not None:
            raise CommandFailed(f"--dialect needs {ENGINE}. Install it.")
        return [*map(reports.report_by_coverage, tools), *invalid], _MISSING
    by_dialect = _compiled(tools, [dialect] if dialect else [*REPRESENTATIVES.values()])
    results: list[SchemaReport] = []
    for tool, *verdicts in zip(tools, *by_dialect, strict=True):
        of_tool = [_report(tool, verdict) for verdict in verdicts]
        results += of_tool if dialect else _by_answer(of_tool)
    return [*results, *invalid], ""


def _by_answer(results: Sequence[SchemaReport]) -> list[SchemaReport]:
    """Return the different reports on one tool in all forms, each with its forms."""
    different: list[SchemaReport] = []
    for form, report in zip(REPRESENTATIVES, results, strict=True):
        same = next((it for it in different if it.model_copy(update={"forms": []}) == report), None)
        if same is None:
            different.append(same := report.model_copy(update={"forms": []}))
        same.forms.append(form)
    if len(different) == 1:
        different[0].forms = [ALL_FORMS]
    return different


def _report(tool: Tool, verdict: GrammarVerdict) -> SchemaReport:
    """Leave out the engine and the time, which are those of a machine."""
    report = reports.report_by_verdict(tool, verdict)
    reason = report.reason if report.status == "refused" else None
    return report.model_copy(update={"engine": None, "compile_ms": None, "reason": reason})


def _compiled(tools: Sequence[Tool], dialects: Sequence[str]) -> list[list[GrammarVerdict]]:
    """Return the verdicts on the tools, by dialect."""
    named = [{"name": tool.name, "parameters": tool.parameters} for tool in tools]
    done = subprocess.run(
        [sys.executable, "-m", COMPILER],
        input=json.dumps({"dialects": dialects, "tools": named}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise CommandFailed(f"The schemas could not be compiled: {last[0]}")
    verdicts = [GrammarVerdict.model_validate_json(line) for line in _lines(done.stdout)]
    return [verdicts[at : at + len(tools)] for at in range(0, len(verdicts), len(tools) or 1)]


STDIN = Path("-")


def _tools(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the tools in files, and print notes on those that are skipped."""
    tools, skipped = read_tools(files)
    for note in skipped:
        typer.echo(note, err=True)
    return tools


def read_tools(paths: Iterable[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the tools in JSON files. A file has a tool, a list of tools, a request with `tools`, the
    result of MCP's `tools/list`, a list of these, or one of them on each line. Return them in the
    form of chat completions, and a sentence on each hosted tool. Raise CommandFailed, which names
    the file and the place of an unknown form."""
    tools: list[dict[str, Any]] = []
    skipped: list[str] = []
    for path in paths:
        name = "standard input" if path == STDIN else str(path)
        try:
            read = read_document(_parsed(path, name, _document))
        except UnknownForm as error:
            raise CommandFailed(f"{_place(name, error.place)}: {error}") from error
        tools += read.tools
        skipped += [
            f"{_place(name, place)}: skipped the hosted tool {kind!r}, which has no schema."
            for place, kind in read.hosted
        ]
    if not tools:
        raise CommandFailed("The files contain no tools.")
    return tools, skipped


def _place(name: str, pointer: str) -> str:
    return f"{name}, {pointer}" if pointer else name


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty. Only "\\n" ends one: `splitlines` also splits
    at other separators, which JSON texts may have."""
    return [line for line in text.split("\n") if line.strip()]


def _document(text: str) -> Any:
    """Parse one JSON value, or one on each line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        lines = _lines(text)
        if error.msg != "Extra data" or len(lines) < 2:
            raise
        return [json.loads(line) for line in lines]


def _parsed(path: Path, name: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CommandFailed(f"{name} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{name} is not valid JSON: {error}.") from error
