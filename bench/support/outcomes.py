"""Outcomes of seeded runs: kept in a file, so that a run can go on, and reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol


class Outcome(Protocol):
    seed: int
    seconds: float
    counts: Counter[str]
    violations: list[str]


def keep(path: Path, outcome: Outcome, **more: Any) -> None:
    """Adds the outcome to the file, with more fields. `asdict` would make a Counter of a Counter's
    items."""
    with path.open("a") as file:
        file.write(json.dumps({**vars(outcome), **more}) + "\n")


def kept(path: Path | None) -> Iterator[dict[str, Any]]:
    """The fields of the outcomes in the file, if there is one."""
    if path is None or not path.exists():
        return
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        yield {**fields, "counts": Counter(fields["counts"])}


def counted(outcomes: Sequence[Outcome], kind: str) -> list[str]:
    """Lines with the number of runs, of a kind, and a table of all that was counted."""
    totals = sum((each.counts for each in outcomes), Counter[str]())
    seconds = sum(each.seconds for each in outcomes)
    return [
        f"{len(outcomes):,} {kind}, {seconds:,.0f} s of one core",
        "",
        "| counted | number |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in sorted(totals.items())),
        "",
    ]
