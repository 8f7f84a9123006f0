"""docs/verify-dialects.md: numbers of each API, one table for each suite, and failed checks."""

from __future__ import annotations

from tests.long.dialects_verify.report import Result, text
from tests.long.reports import report_of

BROKEN = "chat.schema.enum"


def test_numbers_are_those_of_the_report() -> None:
    report = report_of()
    counts = dict.fromkeys(("chat", "responses", "messages"), 0)
    for check in report["checks"]:
        counts[check["api"]] += 1
    of_chat = [check for check in report["checks"] if check["api"] == "chat"]
    error = """{"error":{"message":"There is no 'form'.","type":"x"}}"""
    of_chat[0] |= {"verdict": "refused", "message": f"status 400: {error}"}
    of_chat[1]["verdict"] = "skip"
    page = text([Result("kimi_k2", report)])
    [line] = [line for line in page.splitlines() if line.startswith("| `kimi_k2`")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:5] == [
        "`kimi_k2`",
        "name_json",
        f"{counts['chat'] - 2} passed, 0 failed, 1 refused, 1 not shown",
        f"{counts['responses']} passed, 0 failed",
        f"{counts['messages']} passed, 0 failed",
    ]
    assert cells[5] == str(report["requests"])
    assert "failed checks" not in page
    name = of_chat[0]["id"].removeprefix("chat.")
    assert f"- `kimi_k2` refuses `{name}`: There is no 'form'." in page


def test_failed_checks_are_listed() -> None:
    page = text([Result("qwen3", report_of()), Result("gemma4", report_of(BROKEN))])
    assert "## `gemma4`: failed checks" in page
    assert f"`{BROKEN}`" in page
    assert "## `qwen3`: failed checks" not in page


def test_suites_have_tables_of_their_own() -> None:
    page = text([Result("qwen3", report_of()), Result("qwen3", report_of(suite="full"))])
    quick, full = page.split("## Suite quick")[1].split("## Suite full")
    assert quick.count("| `qwen3`") == full.count("| `qwen3`") == 1


def test_families_are_in_the_order_of_the_shapes() -> None:
    names = ("llama31", "qwen3_coder", "qwen3")
    page = text([Result(name, report_of()) for name in names])
    assert page.index("`qwen3`") < page.index("`qwen3_coder`") < page.index("`llama31`")
