"""The page in headless Chromium, with a real backend: status, playground and inspector."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests import tools
from tests.gateway.servers import adapters
from tests.gateway.stack import Stack
from tests.support.browser.chromium import chromium, expect, opened, sign_in, violations

RUN_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    """The page, with the master key."""
    with opened(browser, stack.url) as page:
        sign_in(page, stack.master_key)
        expect(page.locator("#models tr").first).to_be_visible()
        yield page


def test_the_status_describes_the_backend(page: Any) -> None:
    row = page.locator("#models tr").first
    for text in ("● up", "qwen3", adapters()[0], "tiny"):
        expect(row).to_contain_text(text)


def test_the_playground_shows_how_each_token_was_constrained(
    page: Any, bias: dict[str, float]
) -> None:
    page.get_by_role("link", name="Playground").click()
    mcp = {
        "name": "get_weather",
        "inputSchema": tools.WEATHER["function"]["parameters"],
    }
    page.locator("#play-tools").fill(json.dumps([mcp]))
    page.get_by_label("Further parameters").fill(json.dumps({"logit_bias": bias}))
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#play-state")).to_have_text("Done.", timeout=RUN_MS)
    tokens = page.locator("#play-tokens").get_by_role("option")
    expect(tokens.first).to_have_text("<tool_call>")
    kinds = {name for each in tokens.all() for name in each.get_attribute("class").split()}
    assert {"forced", "masked"} <= kinds
    assert "free" not in kinds  # the call is required and there is no reasoning
    forced, masked = (page.locator(f"#play-tokens .{kind}").first for kind in ("forced", "masked"))
    assert re.search(r"\b1 token allowed, content", forced.get_attribute("title"))
    assert re.search(r"\d tokens allowed, call", masked.get_attribute("title"))
    for arguments in page.locator("#play-message pre").all_text_contents():
        jsonschema.validate(json.loads(arguments), mcp["inputSchema"])
    expect(page.locator("#play-grammars")).to_contain_text(
        re.compile("engine xgrammar.*all keywords are masked")
    )
    # A random model does not make a call by itself.
    expect(page.locator("#play-verdict")).to_contain_text("Broken")
    assert violations(page) == []


def test_the_inspector_reports_engine_and_keywords(page: Any) -> None:
    page.get_by_role("link", name="Schema inspector").click()
    report = page.locator("#schema-report")
    expect(report).to_contain_text("book_table", timeout=RUN_MS)
    expect(report).to_contain_text("uniqueItems at /properties/tags")
    expect(report).to_contain_text(re.compile(r"compiled in [\d.]+ ms"))
    page.get_by_label("Arguments to check").fill('{"restaurant": "Roma", "due": "soon"}')
    expect(report).to_contain_text("Not valid.", timeout=RUN_MS)
