"""The table of the faults, and the checks of the whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.long.chaos.load import Outcome
from tests.support import markdown

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
