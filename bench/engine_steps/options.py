"""What is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .device import StepWork

Kind = Literal["free", "strict", "structured_output", "logits_processor"]
Text = Literal["natural", "random"]

RAMP_STEPS = 40
"""The streams of a block begin one after the other, in this number of steps."""
SETTLING_STEPS = 100
"""Steps after which responses begin and end independently of each other."""
MOST_RESPONSES = 2000


@dataclass(frozen=True)
class Options:
    model: str
    kinds: Sequence[Kind]
    """With `free`."""
    rounds: int
    steps: int
    """Steps of a kind in a round."""
    work: StepWork = field(default_factory=StepWork)
    threads: bool = False
    profiled: Kind | None = None

    def responses(self, streams: int) -> int:
        """About as many as a kind gets requests, if responses have 80 tokens. They are used again
        if there are not enough."""
        steps = RAMP_STEPS + SETTLING_STEPS + self.steps
        return min(MOST_RESPONSES, (self.rounds + 1) * streams * (2 + steps // 80))
