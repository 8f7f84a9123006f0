"""The result in the terminal: a table, and the failures with a command that shows each."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..check import Check
from ..engine.run import Estimate, Result, Run
from ..engine.target import Target
from ..scenario import brief
from .summary import Count, count, failures, groups

FIRST = 10
"""Number of failures that are shown in full."""
STYLES = {"critical": "bold red", "major": "red", "minor": "yellow"}


def show(run: Run, target: Target, console: Console) -> None:
    """The first failures, and then a summary that fits one screen."""
    for result in failures(run.results)[:FIRST]:
        _failure(result, target, console)
    by_api = groups(run.results, by_api=True)
    table = Table(box=box.SIMPLE, pad_edge=False, show_footer=True)
    total = count(run.results)
    table.add_column("checks", footer="all")
    for api, results in by_api.items():
        table.add_column(api, justify="right", footer=_cell(count(results)))
    for family, results in groups(run.results).items():
        cells = []
        for api in by_api:
            of_api = [each for each in results if each.check.api == api]
            cells.append(_cell(count(of_api)) if of_api else Text("", "dim"))
        table.add_row(family.replace("_", " "), *cells)
    console.print(table)
    if total.failed > FIRST:
        rest = [result.check.id for result in failures(run.results)[FIRST:]]
        names = brief(", ".join(rest), 400)
        console.print(Text(f"{len(rest)} further failures: {names}"))
    console.print(
        f"\n{total.passed} passed, {total.failed} failed, {total.refused} refused by the server, "
        f"{total.skipped} not shown by the answers; {total.percent} of those judged. "
        f"{run.requests} requests in {run.seconds:.0f} s."
    )


def _cell(number: Count) -> Text:
    judged = number.passed + number.failed
    text = f"{number.passed}/{judged}" if judged else "–"
    if number.refused:
        text += f" ({number.refused} ref.)"
    style = "red" if number.failed else "green" if number.passed else "dim"
    return Text(text, style)


def _failure(result: Result, target: Target, console: Console) -> None:
    check = result.check
    console.print()
    style = STYLES[check.severity]
    console.print(
        Text.assemble((f"{check.severity} ", style), (check.id, "bold"), f"  {check.title}")
    )
    console.print(Text(f"  {brief(result.message, 200)}"))
    console.print(Text(f"  Rule: {check.rule} ({check.source.section}: {check.source.url})", "dim"))
    if result.exchange is not None:
        command = target.curl(result.exchange.request, check.api)
        console.print(Text(f"  {command}", "dim"), soft_wrap=True)


def explain(check: Check, target: Target, console: Console) -> None:
    """One check: its rule, its source, and the requests that it judges."""
    console.print(Text.assemble((check.id, "bold"), f"  {check.title}\n"))
    for name, value in (
        ("rule", check.rule),
        ("source", f"{check.source.section}: {check.source.url}"),
        ("severity", check.severity),
        ("suite", check.suite),
        ("scenario", f"{check.scenario.name}, {check.scenario.count} requests"),
    ):
        console.print(Text(f"{name:10}{value}"))
    for request in check.scenario.requests[:2]:
        prepared = target.prepared(request, check.api)
        console.print(Text(f"\n{target.curl(prepared, check.api)}"), soft_wrap=True)


def list_checks(checks: list[Check], console: Console) -> None:
    for check in checks:
        line = Text.assemble(
            (f"{check.id:44}", "bold"),
            (f"{check.severity:9}", STYLES[check.severity]),
            f"{check.suite:6}",
            check.title,
        )
        console.print(line, soft_wrap=True)


def cost(total: Estimate, console: Console) -> None:
    console.print(
        f"{total.checks} checks, {total.requests} requests, about "
        f"{total.prompt_tokens:,} prompt tokens, at most {total.output_tokens:,} output tokens"
    )
