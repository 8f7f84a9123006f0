"""Headless Chromium, as the system has it. Package registries lack Playwright's own builds."""

import os
import shutil
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.support.agents.client_packages import node_packages
from tests.support.servers.gateway_process import MASTER_KEY

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = (1280, 900), (390, 844)
HELP = "no Chromium is installed (`apt install chromium`), or set TOOLGATE_CHROMIUM to its path"


def executable():
    """Skips the test if there is no Chromium."""
    found = os.environ.get("TOOLGATE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        pytest.skip(HELP)
    return found


@contextmanager
def chromium():
    """A browser of Playwright."""
    path = executable()
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack. Only our own page is opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, url, *, size=WIDE, scheme="light"):
    """A page at `url`. Fails at the end if the browser reported an error, such as a violation of
    the content security policy, or if the page asked another host for anything."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    errors = []
    origin = "/".join(url.split("/")[:3])

    def note(message):
        # A status of 4xx is logged, too, and is shown to the user instead.
        if message.type == "error" and "Failed to load resource" not in message.text:
            errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(url)
    yield page
    assert errors == []
    assert [each for each in requested if not each.startswith((origin, "data:"))] == []
    context.close()


PACKAGE = Path(__file__).parent
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def _source():
    folder = node_packages(PACKAGE, "axe")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(page):
    """What axe reports of the page as it is, one line for each element."""
    page.evaluate(_source())
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
    assert found["passes"], "axe checked nothing"
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


QUESTION = "Open ticket WEB-2143 with HIGH priority"
"""The message that the playground suggests."""
WEATHER = "What's the weather in Beijing and Shanghai?"
"""The message of the snippets."""


def expect(locator):
    from playwright.sync_api import expect as expected

    return expected(locator)


def sign_in(page, key=MASTER_KEY):
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("#key-state")).not_to_be_empty()


def view(page, name):
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
