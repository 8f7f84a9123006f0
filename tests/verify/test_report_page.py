"""The HTML report in a browser: nothing is cut off, and it is readable in light and dark."""

import asyncio

import pytest

from tests.support.browser.chromium import NARROW, WIDE, chromium, opened, violations
from tests.verify.harness import verify
from tests.verify.reference_server.app import KEY, MODEL
from toolgate_verify.checks import select
from toolgate_verify.engine.target import Target
from toolgate_verify.report.html import html
from toolgate_verify.terms import Severity, Verdict

URL = "http://gateway-with-a-long-name.namespace.svc.cluster.local:4000/a/long/path/v1"
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with all verdicts and severities."""
    run = asyncio.run(verify(select(only=["chat", "messages.history"])))
    verdicts = [Verdict.FAIL, Verdict.FAIL, Verdict.FAIL, Verdict.REFUSED, Verdict.SKIP]
    by_severity = {result.check.severity: result for result in run.results}
    assert {*by_severity} == {*Severity}
    others = [each for each in run.results if each not in [*by_severity.values()]][:2]
    for result, verdict in zip([*by_severity.values(), *others], verdicts, strict=True):
        result.verdict, result.message = verdict, "x" * 150
        result.exchange = run.evidence["chat.text"].exchanges[0]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(run, Target(URL, MODEL * 3, KEY), "2026-11-26 02:00 UTC, suite quick"))
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(page):
    """Started after the page is made: Playwright runs an event loop in this thread."""
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "dark"), (NARROW, "light")])
def test_the_page(browser, page, size, scheme):
    with opened(browser, page, size=size, scheme=scheme) as shown:
        for element in shown.locator("details").all():
            element.evaluate("each => { each.open = true }")
        assert shown.evaluate("document.documentElement.scrollWidth") == size[0]
        smallest = shown.evaluate(
            """() => Math.min(...[...document.body.querySelectorAll("*")]
                .filter(each => each.innerText)
                .map(each => parseFloat(getComputedStyle(each).fontSize)))"""
        )
        assert smallest >= 12
        assert violations(shown) == []
