"""Ratios of paired measurements, with confidence intervals."""

import random
import statistics
from collections.abc import Sequence


def interval(values: Sequence[float], samples: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(samples))
    return medians[int(samples * 0.025)], medians[int(samples * 0.975)]


def ratios(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    """The ratio in each round."""
    return [value / base for value, base in zip(values, bases, strict=True)]


def ratio(values: Sequence[float], bases: Sequence[float]) -> str:
    """The median ratio and its interval, as Markdown."""
    found = ratios(values, bases)
    low, high = interval(found)
    return f"**{statistics.median(found):.2f}** ({low:.2f}–{high:.2f})"
