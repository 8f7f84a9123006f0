"""The page of `toolgate verify` describes every family of checks."""

from __future__ import annotations

import re
from pathlib import Path

from toolgate_verify.checks import all_checks

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "verify.md").read_text()
FAMILIES = {check.family for check in all_checks()}


def _described(heading: str) -> set[str]:
    """The names before the colon, in the list of a section."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split(": ")[0] for line in section.splitlines() if line.startswith("- ")]
    return {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}


def test_every_family_is_described() -> None:
    assert _described("What is checked") == FAMILIES
