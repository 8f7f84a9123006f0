"""`toolgate schema` and `toolgate prewarm`: tools in files.

Without a gateway, `toolgate schema` reports by the backend's own compiler. It runs in a process of
its own, because the gateway imports no engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
from .admin.reports import (
    SchemaReport,
    lines,
    read_entries,
    report_by_coverage,
    report_by_verdict,
)
from .admin.tools import UnknownForm, read_document
from .cli import command, examples

COMPILER = "toolgate_backend.grammars.offline"
ENGINE = "llguidance"
ALL_FORMS = "all forms"
_MISSING = (
    f"{ENGINE} is not installed, so this tells what the keywords of the schemas allow. A form of "
    f"calls may allow less. For that, install {ENGINE}."
)
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
            details = [tool.get("engine") if ready else tool.get("reason")]
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
    if as_json and not instance:
        raise typer.BadParameter("--json prints instances. Set --instance.")
    if instance and url is None:
        raise typer.BadParameter("--instance needs the masks of a backend. Set --url.")
    if dialect and url:
        raise typer.BadParameter("The backends know their dialects. Set --dialect without --url.")
    if url is None:
        reports, note = reports_without_gateway(_tools(files), settings(), dialect)
        if note:
            typer.echo(note, err=True)
        raise typer.Exit(_print_reports(reports))
    # A report without a gateway does not need these modules, which import an HTTP client.
    from .admin.schemas import BackendSchemas, as_json_line, as_line

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


def reports_without_gateway(
    entries: Sequence[object], settings: Settings, dialect: str | None
) -> tuple[list[SchemaReport], str]:
    """Return the reports, for a dialect or for all forms of calls, and a note about them, which is
    empty if there is none. Raises CommandFailed."""
    tools, invalid = read_entries(entries, settings)
    if dialect is not None and (dialect not in DIALECTS or DIALECTS[dialect].calls is None):
        known = ", ".join(sorted(each for each in DIALECTS if DIALECTS[each].calls is not None))
        raise CommandFailed(f"There is no dialect {dialect!r}. Known are: {known}.")
    if find_spec(ENGINE) is None:
        if dialect is not None:
            raise CommandFailed(f"--dialect needs {ENGINE}. Install it.")
        return [*map(report_by_coverage, tools), *invalid], _MISSING
    by_dialect = _compiled(tools, [dialect] if dialect else [*REPRESENTATIVES.values()])
    reports: list[SchemaReport] = []
    for tool, *verdicts in zip(tools, *by_dialect, strict=True):
        found = [_report(tool, verdict) for verdict in verdicts]
        reports += found if dialect else _by_answer(found)
    return [*reports, *invalid], ""


def _by_answer(reports: Sequence[SchemaReport]) -> list[SchemaReport]:
    """Return the different reports on one tool in all forms, each with its forms."""
    forms: dict[str, list[str]] = {}
    found: dict[str, SchemaReport] = {}
    for form, report in zip(REPRESENTATIVES, reports, strict=True):
        answer = report.model_dump_json()
        forms.setdefault(answer, []).append(form)
        found[answer] = report
    if len(found) == 1:
        forms = {answer: [ALL_FORMS] for answer in forms}
    return [report.model_copy(update={"forms": forms[answer]}) for answer, report in found.items()]


def _report(tool: Tool, verdict: GrammarVerdict) -> SchemaReport:
    """Leave out the engine and the time, which are those of a machine."""
    report = report_by_verdict(tool, verdict)
    reason = report.reason if report.status == "refused" else None
    return report.model_copy(update={"engine": None, "compile_ms": None, "reason": reason})


def _compiled(tools: Sequence[Tool], dialects: Sequence[str]) -> list[list[GrammarVerdict]]:
    """Return the verdicts on the tools, by dialect."""
    asked = {
        "dialects": dialects,
        "tools": [{"name": tool.name, "parameters": tool.parameters} for tool in tools],
    }
    done = subprocess.run(
        [sys.executable, "-m", COMPILER],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise CommandFailed(f"The schemas could not be compiled: {last[0]}")
    verdicts = [GrammarVerdict.model_validate_json(line) for line in json_lines(done.stdout)]
    return [verdicts[at : at + len(tools)] for at in range(0, len(verdicts), len(tools) or 1)]


STDIN = Path("-")


@dataclass
class ToolFiles:
    tools: list[dict[str, Any]] = field(default_factory=list)
    """In the form of chat completions."""
    skipped: list[str] = field(default_factory=list)
    """Hosted tools, one sentence each."""


def read_tools(paths: Iterable[Path]) -> ToolFiles:
    """Read the tools in JSON files. A file has a tool, a list of tools, a request with `tools`, the
    result of MCP's `tools/list`, a list of these, or one of them on each line. Raises
    CommandFailed, which names the file and the place of an unknown form."""
    found = ToolFiles()
    for path in paths:
        name = "standard input" if path == STDIN else str(path)
        try:
            read = read_document(_parsed(path, name))
        except UnknownForm as error:
            raise CommandFailed(f"{_place(name, error.place)}: {error}") from error
        found.tools += read.tools
        found.skipped += [
            f"{_place(name, place)}: skipped the hosted tool {kind!r}, which has no schema."
            for place, kind in read.hosted
        ]
    if not found.tools:
        raise CommandFailed("The files contain no tools.")
    return found


def _place(name: str, pointer: str) -> str:
    return f"{name}, {pointer}" if pointer else name


def json_lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty. Only "\\n" ends one: `splitlines` also splits
    at other separators, which JSON texts may have."""
    return [line for line in text.split("\n") if line.strip()]


def _parsed(path: Path, name: str) -> Any:
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8-sig")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            lines = json_lines(text)
            if error.msg != "Extra data" or len(lines) < 2:
                raise
            return [json.loads(line) for line in lines]
    except OSError as error:
        raise CommandFailed(f"{name} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{name} is not valid JSON: {error}.") from error
