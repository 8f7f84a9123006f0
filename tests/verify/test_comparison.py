"""`--compare`: a page with the counts of each server's run, and the rules that it breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from typer.testing import CliRunner

from tests.verify.faults.table import fault_of
from tests.verify.harness import verify
from tests.verify.reference_server.app import KEY, MODEL
from toolgate_verify.checks import select
from toolgate_verify.cli import app
from toolgate_verify.engine.run import Run
from toolgate_verify.engine.target import Target
from toolgate_verify.report.comparison import comparison
from toolgate_verify.report.record import report
from toolgate_verify.terms import Severity, Verdict

CHECKS = select(only=["text", "calls", "choice.allowed_tools", "schema.enum"])
BROKEN = "chat.schema.enum"
COLUMNS = [
    *("server", "kept", "passed", "broken", "critical", "major", "minor"),
    *("refused", "not shown", "chat completions", "Responses", "Messages"),
]


@cache
def run_of(broken: str = "") -> Run:
    """The run with a server that keeps all rules, or that has the fault of one check."""
    if not broken:
        return asyncio.run(verify(CHECKS))
    [check] = [each for each in CHECKS if each.id == broken]
    return asyncio.run(verify(CHECKS, fault_of(check), check.scenario.name))


def changed(verdicts: Sequence[Verdict]) -> Run:
    """The run in which the first checks have other verdicts."""
    results = list(run_of().results)
    for at, verdict in enumerate(verdicts):
        results[at] = replace(results[at], verdict=verdict)
    return Run(results)


def cells(page: str, name: str) -> dict[str, str]:
    """The row of a server in the first table, by column."""
    [line] = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return dict(zip(COLUMNS, (cell.strip() for cell in line.strip("|").split("|")), strict=True))


def rows(page: str, name: str) -> list[str]:
    return page.split(f"## {name}: broken rules\n\n")[1].split("\n\n")[0].splitlines()[2:]


def test_a_server_that_keeps_all_rules() -> None:
    page = comparison({"good": run_of()})
    found = cells(page, "good")
    assert (found["kept"], found["passed"]) == ("100 %", str(len(CHECKS)))
    assert {found[name] for name in COLUMNS[3:9]} == {"0"}
    of_chat = sum(check.api == "chat" for check in CHECKS)
    assert found["chat completions"] == f"{of_chat} of {of_chat}"
    assert "broken rules" not in page


def test_broken_rules_are_those_of_their_server() -> None:
    page = comparison({"good": run_of(), "bad": run_of(BROKEN)})
    failed = [each.check for each in run_of(BROKEN).results if each.verdict == Verdict.FAIL]
    found = cells(page, "bad")
    assert found["broken"] == str(len(failed))
    assert sum(int(found[name]) for name in ("critical", "major", "minor")) == len(failed)
    assert found["kept"] != "100 %"
    section = "\n".join(rows(page, "bad"))
    assert all(f"`{check.id}`" in section for check in failed)
    assert "## good" not in page


def test_refused_and_skipped_checks_are_neither_kept_nor_broken() -> None:
    verdicts = (Verdict.REFUSED, Verdict.REFUSED, Verdict.SKIP)
    found = cells(comparison({"odd": changed(verdicts)}), "odd")
    assert (found["kept"], found["passed"]) == ("100 %", str(len(CHECKS) - 3))
    assert (found["broken"], found["refused"], found["not shown"]) == ("0", "2", "1")


def test_an_api_that_the_server_lacks_has_no_numbers() -> None:
    results = [each for each in run_of().results if each.check.api != "messages"]
    assert cells(comparison({"old": Run(results)}), "old")["Messages"] == "–"


def test_a_rule_that_several_apis_break_is_one_row() -> None:
    results = [
        replace(each, verdict=Verdict.FAIL) if each.check.id.endswith(".calls.id") else each
        for each in run_of().results
    ]
    [row] = rows(comparison({"bad": Run(results)}), "bad")
    assert all(f"`{api}.calls.id`" in row for api in ("chat", "responses", "messages"))


def test_the_worst_rules_are_first() -> None:
    results = list(run_of().results)
    for at, severity in enumerate((Severity.MINOR, Severity.CRITICAL, Severity.MAJOR)):
        check = replace(results[at].check, severity=severity)
        results[at] = replace(results[at], check=check, verdict=Verdict.FAIL)
    found = [row.split("|")[1].strip() for row in rows(comparison({"bad": Run(results)}), "bad")]
    assert found == ["critical", "major", "minor"]


def test_reports_are_judged_again_and_compared(tmp_path: Path) -> None:
    options = []
    for name, broken in (("good", ""), ("bad", BROKEN)):
        path = tmp_path / f"{name}.json"
        target = Target("http://reference/v1", MODEL, KEY)
        path.write_text(json.dumps(report(run_of(broken), target, {"suite": "quick"})))
        options += ["--compare", f"{name}={path}"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0
    assert cells(result.output, "good")["kept"] == "100 %"
    assert f"`{BROKEN}`" in "\n".join(rows(result.output, "bad"))


def test_a_report_without_a_name_or_a_file_is_an_error(tmp_path: Path) -> None:
    for given, expected in ((str(tmp_path), "NAME=REPORT"), (f"a={tmp_path}/none", "no report")):
        result = CliRunner().invoke(app, ["--compare", given])
        assert result.exit_code == 2
        assert expected in result.output
