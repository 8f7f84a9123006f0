"""Ratios of what was measured side by side, and how sure they are."""

import random
import statistics
from collections.abc import Sequence


def interval(values: Sequence[float], samples: int = 2000) -> tuple[float, float]:
    """The middle 95 % of the medians of resampled values (bootstrap)."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(samples))
    return medians[int(samples * 0.025)], medians[int(samples * 0.975)]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Of rounds next to each other."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Their median, and its interval."""
    found = ratios(ours, theirs)
    low, high = interval(found)
    return f"**{statistics.median(found):.2f}** ({low:.2f}–{high:.2f})"
