"""Take the screenshots in docs/guide/page from a running gateway with the demo model.

    toolgate serve demo_model/toolgate_demo_model/weights --name demo   # in another terminal
    python scripts/page_screenshots.py http://127.0.0.1:4000 "$(cat ~/.config/toolgate/master_key)"

Needs Playwright and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "guide" / "page"
WIDTH, HEIGHT = 1280, 860
MAX_BYTES = 150_000
REQUESTS = 30
"""Requests before the status is shown."""


def main(url: str, key: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        expect(page.locator("#models tr").first).to_be_visible()
        _playground(page)
        _inspector(page)
        _status(page, url, key)
        browser.close()


def _playground(page: Any) -> None:
    page.get_by_role("link", name="Playground").click()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#play-state")).to_have_text("Done.", timeout=60_000)
    page.evaluate("document.getElementById('play-state').scrollIntoView()")
    _save(page, "playground-wide")


def _inspector(page: Any) -> None:
    page.get_by_role("link", name="Schema inspector").click()
    report = page.locator("#schema-report")
    expect(report).to_contain_text("uniqueItems", timeout=60_000)
    _save(page, "inspector-wide")


def _status(page: Any, url: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"}
    model = page.locator("#play-model").input_value()
    body = {"model": model, "stream": True, "max_tokens": 8}
    body["messages"] = [{"role": "user", "content": "Hello"}]
    for _ in range(REQUESTS):
        page.request.post(f"{url}/v1/chat/completions", headers=headers, data=body)
    page.get_by_role("link", name="Status").click()
    page.wait_for_timeout(4000)  # the page asks again
    page.evaluate("scrollTo(0, 0)")
    _save(page, "status-wide")


def _save(page: Any, name: str) -> None:
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{path} is larger than {MAX_BYTES:,} bytes.")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
