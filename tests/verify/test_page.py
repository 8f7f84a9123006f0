"""The page of `toolgate verify` describes every family of checks."""

from __future__ import annotations

import re
from pathlib import Path

from toolgate_verify.catalogue import all_checks

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "verify.md").read_text()
FAMILIES = {check.family for check in all_checks()}


def _column(heading: str, number: int) -> set[str]:
    """The names in a column of the table of a section. Options begin with a dash."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row[number])}


def test_every_family_is_described() -> None:
    assert _column("What is checked", 1) == FAMILIES
