"""Counts of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..engine.run import Result
from ..terms import Severity, Verdict

ORDER = (Severity.CRITICAL, Severity.MAJOR, Severity.MINOR)


@dataclass(frozen=True)
class Count:
    passed: int
    failed: int
    refused: int
    skipped: int

    @property
    def rate(self) -> float | None:
        """The share of the checks that were judged which passed, or None if there are none."""
        judged = self.passed + self.failed
        return self.passed / judged if judged else None

    @property
    def percent(self) -> str:
        """The share, rounded down: 100 % only if nothing failed."""
        rate = self.rate
        return "–" if rate is None else f"{int(rate * 1000) / 10:g} %"


def count(results: Iterable[Result]) -> Count:
    number = Counter(result.verdict for result in results)
    return Count(
        number[Verdict.PASS], number[Verdict.FAIL], number[Verdict.REFUSED], number[Verdict.SKIP]
    )


def groups(results: Iterable[Result], by_api: bool = False) -> dict[str, list[Result]]:
    """Return the results by family, or by API, in the order of the checks."""
    results_of: dict[str, list[Result]] = {}
    for result in results:
        check = result.check
        results_of.setdefault(str(check.api) if by_api else check.family, []).append(result)
    return results_of


def failures(results: Iterable[Result]) -> list[Result]:
    """Return the failures, the most severe first."""
    failed = [result for result in results if result.verdict == Verdict.FAIL]
    return sorted(failed, key=lambda result: ORDER.index(result.check.severity))
