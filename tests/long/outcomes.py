"""Outcomes of seeded runs: kept in a file, so that a run can go on, and reported."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """What the run of one seed counted, and what was wrong in it."""

    seed: int
    seconds: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    """What the seed stands for, such as a family, and options that it was run with."""
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--out", type=Path, help="file of outcomes, to go on from")


def keep(path: Path | None, outcome: Outcome) -> None:
    """Adds the outcome to the file. `asdict` would make a Counter of a Counter's items."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(vars(outcome)) + "\n")


def kept(path: Path | None, **labels: str) -> dict[int, Outcome]:
    """The outcomes with the labels in the file, if there is one, by seed."""
    if path is None or not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    found = (Outcome(**{**line, "counts": Counter(line["counts"])}) for line in lines)
    return {outcome.seed: outcome for outcome in found if labels.items() <= outcome.labels.items()}


def violations(outcomes: Sequence[Outcome]) -> list[str]:
    """Lines with the number of violations, and each with its seed."""
    found = [f"seed {each.seed}: {what}" for each in outcomes for what in each.violations]
    return [f"Violations: {len(found)}", *found]


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
