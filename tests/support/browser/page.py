"""The gateway's page as a user handles it: the key, the views, and what is expected of them."""

from __future__ import annotations

from typing import Any

from tests.support.servers.gateway_process import MASTER_KEY

QUESTION = "Open ticket WEB-2143 with HIGH priority"
"""The message that the playground suggests."""
WEATHER = "What's the weather in Beijing and Shanghai?"
"""The message of the snippets."""


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expected

    return expected(locator)


def sign_in(page: Any, key: str = MASTER_KEY) -> None:
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("#key-state")).not_to_be_empty()


def view(page: Any, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
