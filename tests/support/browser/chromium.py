"""Headless Chromium, as the system has it. Package registries lack Playwright's own builds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = (1280, 900), (390, 844)
HELP = "no Chromium is installed (`apt install chromium`), or set TOOLGATE_CHROMIUM to its path"


def executable() -> str:
    """Skips the test if there is no Chromium."""
    found = os.environ.get("TOOLGATE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        pytest.skip(HELP)
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright."""
    path = executable()
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack. Only our own page is opened.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any, url: str, *, size: tuple[int, int] = WIDE, scheme: str = "light"
) -> Iterator[Any]:
    """A page at `url`. Fails at the end if the browser reported an error, such as a violation of
    the content security policy, or if the page asked another host for anything."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    errors: list[str] = []
    origin = "/".join(url.split("/")[:3])

    def note(message: Any) -> None:
        # A status of 4xx is logged, too, and is shown to the user instead.
        if message.type == "error" and "Failed to load resource" not in message.text:
            errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(url)
    yield page
    assert errors == []
    assert [each for each in requested if not each.startswith((origin, "data:"))] == []
    context.close()
