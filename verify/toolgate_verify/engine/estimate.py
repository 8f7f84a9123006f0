"""What a run costs, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..check import Check
from .run import scenarios_of

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Estimate:
    checks: int
    scenarios: int
    requests: int
    """The maximum, without repetitions that confirm a failure."""
    prompt_tokens: int
    """By the length of the bodies."""
    output_tokens: int
    """The maximum."""


def estimate(checks: Sequence[Check]) -> Estimate:
    scenarios = scenarios_of(checks)
    sent = [request for scenario in scenarios for request in scenario.requests]
    followers = sum(scenario.followers for scenario in scenarios)
    largest = [
        max((each.max_tokens for each in scenario.requests), default=0) * scenario.followers
        for scenario in scenarios
    ]
    return Estimate(
        len(checks),
        len(scenarios),
        len(sent) + followers,
        sum(len(request.content) for request in sent) // CHARACTERS_PER_TOKEN + 40 * followers,
        sum(request.max_tokens for request in sent) + sum(largest),
    )
