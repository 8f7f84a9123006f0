"""docs/scoreboard.md: counts and broken rules are those of the reports."""

from __future__ import annotations

from typing import Any

from tests.long.reports import report_of
from tests.long.scoreboard.report import Result, text

BROKEN = "chat.schema.enum"


def result(name: str, report: dict[str, Any], how: str = "serve MODEL") -> Result:
    return Result(name, "1.0", how, "2026-11-26", report)


def row(page: str, section: str, name: str) -> list[str]:
    """The cells of a server's row in the table of a section."""
    lines = page.split(f"## {section}\n")[1].split("\n## ")[0].splitlines()
    [found] = [line for line in lines if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_a_server_that_keeps_all_rules() -> None:
    report = report_of()
    page = text([result("good", report)], "a model")
    passed = str(len(report["checks"]))
    assert row(page, "Overview", "**good**") == [
        *("**good**", "1.0", "2026-11-26", "100.0 %", passed, "0", "0", "0", "0", "0", "0")
    ]
    assert "broken rules" not in page.split("## Overview")[1]
    assert "Model: a model." in page
    assert "- good: `serve MODEL`" in page


def test_a_broken_rule_is_named_with_its_severity() -> None:
    report = report_of(BROKEN)
    failed = [each for each in report["checks"] if each["verdict"] == "fail"]
    assert BROKEN in [each["id"] for each in failed]
    page = text([result("good", report_of()), result("bad", report)], "a model")
    cells = row(page, "Overview", "**bad**")
    assert cells[5] == str(len(failed))
    assert sum(map(int, cells[8:])) == len(failed)
    assert cells[3] != "100.0 %"
    section = page.split("## bad: broken rules\n")[1]
    assert all(f"`{each['id']}`" in section for each in failed)
    assert f"| {failed[0]['severity']} |" in section
    assert "## good: broken rules" not in page


def test_refused_and_skipped_checks_are_neither_kept_nor_broken() -> None:
    report = report_of()
    of_chat = [check for check in report["checks"] if check["api"] == "chat"]
    for check, verdict in zip(of_chat, ("refused", "refused", "skip"), strict=False):
        check["verdict"] = verdict
    page = text([result("odd", report)], "a model")
    cells = row(page, "Overview", "**odd**")
    assert cells[3:8] == ["100.0 %", str(len(report["checks"]) - 3), "0", "2", "1"]
    judged = len(of_chat) - 3
    assert row(page, "By API", "odd")[1] == f"{judged} of {judged}, 2 refused"


def test_an_api_that_the_server_lacks_has_no_numbers() -> None:
    report = report_of()
    report["checks"] = [each for each in report["checks"] if each["api"] != "messages"]
    assert row(text([result("old", report)], "a model"), "By API", "old")[3] == "–"


def test_a_rule_that_several_apis_break_is_one_row() -> None:
    report = report_of()
    for check in report["checks"]:
        if check["id"].endswith(".calls.id"):
            check["verdict"] = "fail"
    section = text([result("bad", report)], "a model").split("## bad: broken rules\n")[1]
    rows = [line for line in section.splitlines() if line.startswith("| ma")]
    assert len(rows) == 1
    assert all(f"`{api}.calls.id`" in rows[0] for api in ("chat", "responses", "messages"))


def test_the_worst_rules_are_first() -> None:
    report = report_of()
    for check, severity in zip(report["checks"], ("minor", "critical", "major"), strict=False):
        check |= {"verdict": "fail", "severity": severity}
    section = text([result("bad", report)], "a model").split("## bad: broken rules\n")[1]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows == ["severity", "critical", "major", "minor"]
