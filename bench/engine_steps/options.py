"""What is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .device import StepTimes

Kind = Literal["free", "strict", "structured_output"]
Text = Literal["natural"]


@dataclass(frozen=True)
class Options:
    model: str
    kinds: Sequence[Kind]
    """With `free`."""
    rounds: int
    steps: int
    """Steps of a kind in a round."""
    times: StepTimes = field(default_factory=StepTimes)
    threads: bool = False
    displaced_bytes: int = 0
    profiled: Kind | None = None
