"""Reports: JSON that is judged again, HTML, JUnit, the terminal, comparisons, and commands."""

import asyncio
import io
import json
import shlex
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.verify.faults.table import fault_of
from tests.verify.harness import TARGET, InProcess, run_without_a_fault, verify
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from toolgate_verify.checks import all_checks, select
from toolgate_verify.cli import app
from toolgate_verify.engine.run import Run
from toolgate_verify.report import terminal
from toolgate_verify.report.comparison import comparison
from toolgate_verify.report.html import bars, histogram, html
from toolgate_verify.report.junit import junit
from toolgate_verify.report.record import NotAReport, replay, report
from toolgate_verify.report.summary import count, groups
from toolgate_verify.terms import Severity, Verdict

CHECKS = select(only=["text", "calls", "schema.enum", "errors.wrong_key"])
FAILED = "chat.calls.arguments_valid"
CLI = CliRunner()


@cache
def failed_run():
    [check] = [each for each in CHECKS if each.id == FAILED]
    return asyncio.run(verify(CHECKS, fault_of(check), check.scenario.name))


def shown(run):
    console = Console(file=io.StringIO(), width=100)
    terminal.show(run, TARGET, console)
    return console.file.getvalue()


def failure():
    return next(each for each in failed_run().results if each.verdict == Verdict.FAIL)


def texts():
    run = failed_run()
    return {
        "json": json.dumps(report(run, TARGET, {"suite": "quick"})),
        "html": html(run, TARGET, "today"),
        "junit": junit(run, TARGET),
        "terminal": shown(run),
    }


@pytest.mark.parametrize("form", ["json", "html", "junit", "terminal"])
def test_each_form_names_the_failure_and_never_the_key(form):
    text = texts()[form]
    assert FAILED in text
    assert "curl -sS" in text
    assert KEY not in text


def test_a_report_is_judged_again_without_requests(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(texts()["json"])
    again, target = replay(path, all_checks())
    before = {result.check.id: result.verdict for result in failed_run().results}
    assert {result.check.id: result.verdict for result in again.results} == before
    assert (target.url, target.model, target.key) == (TARGET.url, MODEL, "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}'])
def test_another_file_is_no_report(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(NotAReport):
        replay(path, all_checks())


def test_junit_counts():
    root = ElementTree.fromstring(texts()["junit"])
    run = failed_run()
    assert root.attrib["tests"] == str(len(run.results))
    failed = [each for each in run.results if each.verdict == Verdict.FAIL]
    assert root.attrib["failures"] == str(len(failed)) == str(len(root.findall(".//failure")))


def test_junit_with_characters_that_xml_lacks():
    result = failure()
    broken = Run([type(result)(result.check, Verdict.FAIL, "a\x00\ud800b", result.exchange)])
    ElementTree.fromstring(junit(broken, TARGET))


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_loads_nothing_and_runs_nothing():
    parser = Tags()
    parser.feed(texts()["html"])
    tags = {tag for tag, _ in parser.seen}
    assert {"details", "table", "i"} <= tags
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert not [name for _, values in parser.seen for name in values if name.startswith("on")]


def test_the_bars_show_the_verdicts_of_each_family():
    run = failed_run()
    page = bars(run)
    for family, results in groups(run.results).items():
        row = page.split(f"<span>{family}</span>")[1].split("<span class=n>")
        found = count(results)
        numbers = {"passed": found.passed, "failed": found.failed, "not shown": found.skipped}
        for kind, number in numbers.items():
            assert (f'title="{number} {kind}"' in row[0]) is bool(number), (family, kind)
        assert row[1].startswith(f"{found.passed}/{len(results)}<")


def test_the_histogram_counts_each_request_once():
    assert histogram([0.01, 0.05, 0.06, 3.0, 30.0, 31.0, 4000.0]) == [2, 1, 0, 0, 0, 0, 1, 0, 1, 2]


def test_code_in_titles_is_code():
    result = failure()
    titled = replace(result.check, title="`n` is <b>")
    page = html(Run([type(result)(titled, Verdict.FAIL, "", result.exchange)]), TARGET, "today")
    assert "<code>n</code> is &lt;b&gt;" in page


def test_answers_can_not_add_markup_to_the_page():
    result = failure()
    assert result.exchange is not None
    result = type(result)(result.check, Verdict.FAIL, "<script>x</script>", result.exchange)
    assert "<script" not in html(Run([result]), TARGET, "<script>")


def test_the_summary_fits_a_screen():
    assert shown(run_without_a_fault()[0]).count("\n") <= 40


def test_a_command_is_the_request():
    run = failed_run()
    exchange = run.evidence["chat.call"].exchanges[0]
    words = shlex.split(TARGET.curl(exchange.request, run.results[0].check.api))
    assert json.loads(words[words.index("-d") + 1]) == exchange.request.body
    assert "Authorization: Bearer $TOOLGATE_VERIFY_KEY" in words
    assert words[2] == "http://reference/v1/chat/completions"


@pytest.fixture
def served(monkeypatch):
    """The command line sends its requests to the reference server."""
    server = ReferenceServer()
    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **_: real(transport=InProcess(server)))
    return server


ARGUMENTS = ["http://reference", "--model", MODEL, "--key", KEY]


def test_the_command_verifies_an_endpoint(served, tmp_path):
    paths = {name: tmp_path / name for name in ("json", "html", "junit")}
    options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    result = CLI.invoke(app, [*ARGUMENTS, "--only", "choice", *options])
    assert result.exit_code == 0, result.output
    assert "0 failed" in result.output
    assert all(KEY not in path.read_text() for path in paths.values())
    again = CLI.invoke(app, ["--replay", str(paths["json"])])
    assert again.exit_code == 0


def test_a_failure_is_exit_status_1(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(texts()["json"])
    assert CLI.invoke(app, ["--replay", str(path)]).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the URL"),
        (["http://reference", "--only", "colour"], "no check"),
        (["--explain", "colour"], "no check"),
        (["http://reference", "--body", "[1]"], "--body"),
        (["http://reference", "--body", "{"], ""),
        (["--replay", "missing.json"], "missing.json"),
        (["http://reference", "--tools", "missing.json"], "missing.json"),
    ],
)
def test_what_can_not_be_verified_is_exit_status_2(arguments, said):
    result = CLI.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_wrong_key_is_exit_status_2(served):
    result = CLI.invoke(app, ["http://reference", "--model", MODEL, "--key", "sk-other"])
    assert result.exit_code == 2
    assert "401" in result.output


def test_a_dry_run_sends_nothing(served):
    result = CLI.invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 0
    assert "requests" in result.output
    assert served.requests == 0


def test_a_check_is_explained():
    output = CLI.invoke(app, ["--explain", FAILED]).output
    assert "With `strict: true`" in output
    assert "curl -sS" in output


def test_all_checks_are_listed():
    output = CLI.invoke(app, ["--list", "--suite", "full"]).output
    assert all(check.id in output for check in all_checks())


CHECKS_COMPARISON = select(only=["text", "calls", "choice.allowed_tools", "schema.enum"])
BROKEN = "chat.schema.enum"
COLUMNS = [
    *("server", "kept", "passed", "broken", "critical", "major", "minor"),
    *("refused", "not shown", "chat completions", "Responses", "Messages"),
]


@cache
def run_of(broken=""):
    """The run with a server that keeps all rules, or that has the fault of one check."""
    if not broken:
        return asyncio.run(verify(CHECKS_COMPARISON))
    [check] = [each for each in CHECKS_COMPARISON if each.id == broken]
    return asyncio.run(verify(CHECKS_COMPARISON, fault_of(check), check.scenario.name))


def changed(verdicts):
    """The run in which the first checks have other verdicts."""
    results = list(run_of().results)
    for at, verdict in enumerate(verdicts):
        results[at] = replace(results[at], verdict=verdict)
    return Run(results)


def cells(page, name):
    """The row of a server in the first table, by column."""
    [line] = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return dict(zip(COLUMNS, (cell.strip() for cell in line.strip("|").split("|")), strict=True))


def rows(page, name):
    return page.split(f"## {name}: broken rules\n\n")[1].split("\n\n")[0].splitlines()[2:]


def test_a_server_that_keeps_all_rules():
    page = comparison({"good": run_of()})
    found = cells(page, "good")
    assert (found["kept"], found["passed"]) == ("100 %", str(len(CHECKS_COMPARISON)))
    assert {found[name] for name in COLUMNS[3:9]} == {"0"}
    of_chat = sum(check.api == "chat" for check in CHECKS_COMPARISON)
    assert found["chat completions"] == f"{of_chat} of {of_chat}"
    assert "broken rules" not in page


def test_broken_rules_are_those_of_their_server():
    page = comparison({"good": run_of(), "bad": run_of(BROKEN)})
    failed = [each.check for each in run_of(BROKEN).results if each.verdict == Verdict.FAIL]
    found = cells(page, "bad")
    assert found["broken"] == str(len(failed))
    assert sum(int(found[name]) for name in ("critical", "major", "minor")) == len(failed)
    assert found["kept"] != "100 %"
    section = "\n".join(rows(page, "bad"))
    assert all(f"`{check.id}`" in section for check in failed)
    assert "## good" not in page


def test_refused_and_skipped_checks_are_neither_kept_nor_broken():
    verdicts = (Verdict.REFUSED, Verdict.REFUSED, Verdict.SKIP)
    found = cells(comparison({"odd": changed(verdicts)}), "odd")
    assert (found["kept"], found["passed"]) == ("100 %", str(len(CHECKS_COMPARISON) - 3))
    assert (found["broken"], found["refused"], found["not shown"]) == ("0", "2", "1")


def test_an_api_that_the_server_lacks_has_no_numbers():
    results = [each for each in run_of().results if each.check.api != "messages"]
    assert cells(comparison({"old": Run(results)}), "old")["Messages"] == "–"


def test_a_rule_that_several_apis_break_is_one_row():
    results = [
        replace(each, verdict=Verdict.FAIL) if each.check.id.endswith(".calls.id") else each
        for each in run_of().results
    ]
    [row] = rows(comparison({"bad": Run(results)}), "bad")
    assert all(f"`{api}.calls.id`" in row for api in ("chat", "responses", "messages"))


def test_the_worst_rules_are_first():
    results = list(run_of().results)
    for at, severity in enumerate((Severity.MINOR, Severity.CRITICAL, Severity.MAJOR)):
        check = replace(results[at].check, severity=severity)
        results[at] = replace(results[at], check=check, verdict=Verdict.FAIL)
    found = [row.split("|")[1].strip() for row in rows(comparison({"bad": Run(results)}), "bad")]
    assert found == ["critical", "major", "minor"]


def test_reports_are_judged_again_and_compared(tmp_path):
    options = []
    for name, broken in (("good", ""), ("bad", BROKEN)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(report(run_of(broken), TARGET, {"suite": "quick"})))
        options += ["--compare", f"{name}={path}"]
    result = CLI.invoke(app, options)
    assert result.exit_code == 0
    assert cells(result.output, "good")["kept"] == "100 %"
    assert f"`{BROKEN}`" in "\n".join(rows(result.output, "bad"))


def test_a_report_without_a_name_or_a_file_is_an_error(tmp_path):
    for given, expected in ((str(tmp_path), "NAME=REPORT"), (f"a={tmp_path}/none", "no report")):
        result = CLI.invoke(app, ["--compare", given])
        assert result.exit_code == 2
        assert expected in result.output
