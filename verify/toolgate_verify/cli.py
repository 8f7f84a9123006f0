"""`toolgate-verify`: the command line. `toolgate verify` is the same."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .terms import Suite

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_show_locals=False)

EPILOG = "\b\nExamples:\n" + "\n".join(
    f"  {line}"
    for line in (
        "toolgate-verify http://gateway:4000 --key sk-…",
        "toolgate-verify https://api.example.com/v1 --model m --api chat --dry-run",
        "toolgate-verify http://vllm:8000 --suite full --html report.html --json report.json",
        "toolgate-verify http://vllm:8000 --only schema --only chat.stream.calls_same",
        "toolgate-verify --explain chat.choice.named",
        "toolgate-verify --replay report.json",
        "toolgate-verify --compare old=report.json --compare new=new.json",
    )
)


class Apis(StrEnum):
    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    ALL = "all"


@app.command(epilog=EPILOG)
def verify(
    url: Annotated[str | None, typer.Argument(help="Base URL of the endpoint.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name. Default: the only one of GET /v1/models.")
    ] = None,
    api: Annotated[
        Apis, typer.Option(help="APIs to verify. `all` leaves out those that the server lacks.")
    ] = Apis.ALL,
    key: Annotated[
        str,
        typer.Option(envvar=["TOOLGATE_VERIFY_KEY", "TOOLGATE_API_KEY"], help="API key."),
    ] = "",
    suite: Annotated[Suite, typer.Option(help="How many checks run.")] = Suite.QUICK,
    tools: Annotated[
        Path | None, typer.Option(help="JSON file with tools of yours, which are called too.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            help="JSONL file with bodies of chat completions, which are sent instead of the suite."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Report of another endpoint, with which answers to samples are compared."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="IDs, or beginnings of IDs, of the checks to run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="`seed` of the chat completions.")] = 1,
    body: Annotated[
        str | None,
        typer.Option(
            "--body",
            help="JSON object with fields for every request, for example "
            '\'{"chat_template_kwargs": {"enable_thinking": false}}\'.',
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Concurrent scenarios.", min=1)] = 8,
    timeout: Annotated[float, typer.Option(help="Seconds for each request.", min=1)] = 120.0,
    max_requests: Annotated[
        int | None, typer.Option(help="End after this many requests.", min=1)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of requests and tokens, and end.")
    ] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the checks, and end.")] = False,
    explain: Annotated[
        str | None, typer.Option(help="Explain a check and print its requests.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Judge the answers in a report again. Nothing is sent.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=REPORT", help="Print the judged reports of several servers as one page."
        ),
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write a report with all answers.")
    ] = None,
    html_path: Annotated[Path | None, typer.Option("--html", help="Write a page.")] = None,
    junit_path: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")] = None,
) -> None:
    """Verify that an endpoint keeps the rules of its API.

    Send requests to the URL, and nothing anywhere else. Each check is one rule of OpenAI's or
    Anthropic's specification. The exit status is 0 if no check failed, 1 if one did, and 2 if the
    endpoint could not be verified."""
    from rich.console import Console

    from .engine.run import estimate
    from .engine.session import NotVerified, Session, verified
    from .report import terminal
    from .report.comparison import comparison
    from .report.record import NotAReport
    from .report.record import replay as judged_again
    from .report.sample_metrics import metrics
    from .tools.user_tools import NoTools

    console = Console()
    try:
        session = Session(
            url or "http://127.0.0.1:4000",
            model or "",
            key,
            api,
            suite,
            tuple(only or ()),
            seed,
            _fields(body),
            concurrency,
            timeout,
            max_requests,
            tools,
            samples,
        )
        if explain is not None:
            terminal.explain(session.check(explain), session.target, console)
            return
        if list_all:
            terminal.list_checks(session.checks(), console)
            return
        if compare:
            typer.echo(comparison(dict(_judged(each, session) for each in compare)))
            return
        if replay is not None:
            run, target = judged_again(replay, session.every_check())
        elif url is None:
            raise NotVerified("name the URL of an endpoint; `toolgate-verify --help` has examples")
        else:
            terminal.cost(estimate(session.checks()), console)
            if dry_run:
                return
            run, target = verified(session, console)
        other = None if reference is None else judged_again(reference, session.every_check())[0]
        rates = metrics(run.evidence, None if other is None else other.evidence)
    except (NotVerified, NotAReport, NoTools, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    terminal.show(run, target, console)
    if rates is not None:
        console.print(rates.line)
    _write(run, target, session.settings(), json_path, html_path, junit_path)
    raise typer.Exit(_status(run))


def main() -> None:
    app()


def _judged(option: str, session: Any) -> tuple[str, Any]:
    """Return the name and the run of an option `NAME=REPORT`. Raise ValueError, NotAReport."""
    from .report.record import replay

    name, is_given, path = option.partition("=")
    if not is_given:
        raise ValueError(f"--compare {option}: write NAME=REPORT, as in --compare vLLM=report.json")
    return name, replay(Path(path), session.every_check())[0]


def _fields(body: str | None) -> dict[str, Any]:
    fields = {} if body is None else json.loads(body)
    if not isinstance(fields, dict):
        raise ValueError("--body is not a JSON object")
    return fields


def _status(run: Any) -> int:
    from .report.summary import count

    number = count(run.results)
    return 1 if number.failed else 0 if number.passed else 2


def _write(
    run: Any,
    target: Any,
    settings: dict[str, Any],
    json_path: Path | None,
    html_path: Path | None,
    junit_path: Path | None,
) -> None:
    from datetime import UTC, datetime

    from .report.html import html
    from .report.junit import junit
    from .report.record import report

    if json_path is not None:
        text = json.dumps(report(run, target, settings), indent=1)
        json_path.write_text(text, encoding="utf-8", errors="surrogatepass")
    if html_path is not None:
        when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, suite {settings['suite']}"
        html_path.write_text(html(run, target, when), encoding="utf-8", errors="replace")
    if junit_path is not None:
        junit_path.write_text(junit(run, target), encoding="utf-8", errors="replace")
