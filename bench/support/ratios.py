"""Ratios of paired measurements, with confidence intervals."""

import random
import statistics
from collections.abc import Sequence


def interval(values: Sequence[float], samples: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(samples))
    return medians[int(samples * 0.025)], medians[int(samples * 0.975)]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratio in each round."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median ratio and its interval, as Markdown."""
    found = ratios(ours, theirs)
    low, high = interval(found)
    return f"**{statistics.median(found):.2f}** ({low:.2f}–{high:.2f})"
