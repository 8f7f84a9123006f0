"""axe-core's rules for accessible pages, from a cache of its npm package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.support.agents.client_packages import node_packages

PACKAGE = Path(__file__).parent
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def _source() -> str:
    folder = node_packages(PACKAGE, "axe")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Any) -> list[str]:
    """What axe reports of the page as it is, one line for each element."""
    page.evaluate(_source())
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
    assert found["passes"], "axe checked nothing"
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
