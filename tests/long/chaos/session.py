"""One run with a fleet: its options, its servers, the table of the faults, and what is wrong."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.long.chaos.fleet import Fleet, below
from tests.long.chaos.load import Outcome
from tests.support import commands, markdown
from tests.support.servers.contenders import exit_on_sigterm
from toolgate_proxy.demo.model import closers

Run = Callable[[Fleet, dict[str, float]], Coroutine[Any, Any, list[str]]]
"""Takes the fleet and the bias of its requests. Returns what is wrong."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """`description`: the docstring of the test."""
    parser = commands.parser_of(description)
    parser.add_argument("model", type=Path)
    parser.add_argument("--logs", type=Path, help="directory for the servers' logs")
    return parser


def conduct(options: argparse.Namespace, make: Callable[[Path, Path], Fleet], run: Run) -> int:
    """Runs with the fleet that `make` returns for the model and a directory for logs. Prints what
    is wrong, and returns the exit status."""
    exit_on_sigterm()
    directory = below(options.logs or Path(tempfile.gettempdir()))
    fleet = make(options.model.resolve(), directory)
    try:
        with fleet:
            print("The servers are ready.", file=sys.stderr, flush=True)
            wrong = asyncio.run(run(fleet, closers(options.model)))
        wrong += [f"left running: {each}" for each in fleet.left()]
    finally:
        if options.logs is None:
            shutil.rmtree(directory, ignore_errors=True)
    for each, count in Counter(wrong).most_common():
        print(f"- {each}" + (f" ({count} times)" if count > 1 else ""))
    print(f"\n{len(wrong)} violations")
    return bool(wrong)


EXPECTED = ("ok", "disconnected")
"""Outcomes that need no fault. Clients disconnect on purpose."""
LONGEST = 30.0
"""Seconds that a request may take. One of the two backends always works."""


@dataclass(frozen=True)
class Found:
    """One fault: when it began, and after how many seconds its processes were back."""

    fault: str
    began: float
    ended: float
    back: float | None

    def row(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Requests belong to the fault during which they ended."""
        mine = [each for each in outcomes if self.began <= each.began + each.seconds < self.ended]
        failed = [each for each in mine if each.what not in EXPECTED]
        counts = Counter(each.what for each in failed)
        last = max((each.began + each.seconds - self.began for each in failed), default=None)
        return [
            self.fault,
            str(len(mine)),
            ", ".join(f"{count} × {what}" for what, count in counts.most_common()) or "none",
            f"{max((each.seconds for each in mine), default=0):.1f}",
            "-" if last is None else f"{last:.1f}",
            "not in time" if self.back is None else f"{self.back:.1f}",
        ]


HEAD = (
    "fault",
    "requests",
    "failed",
    "longest, s",
    "last failure after, s",
    "processes back after, s",
)


def table(found: Sequence[Found], outcomes: Sequence[Outcome]) -> str:
    return markdown.table(HEAD, (each.row(outcomes) for each in found))


def counted(outcomes: Sequence[Outcome], seconds: float) -> str:
    """How many requests there were, of each kind."""
    counts = Counter(each.what for each in outcomes)
    listed = ", ".join(f"{count} × {what}" for what, count in counts.most_common())
    return f"{len(outcomes):,} requests in {seconds / 60:.1f} minutes: {listed}."


def violations(outcomes: Sequence[Outcome]) -> list[str]:
    found = [f"{each.what}: {what}" for each in outcomes for what in each.violations]
    return found + [
        f"a request took {each.seconds:.1f} s ({each.what})"
        for each in outcomes
        if each.seconds > LONGEST
    ]
