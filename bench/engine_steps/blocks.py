"""What is measured, and what a session's process returns."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

from bench.support.strings import Strings

from .clocks import StepWork

Kind = Literal["free", "strict", "structured_output", "logits_processor"]
Text = Literal["natural", "random", "reference", Strings]
"""What the calls are: words in free strings, or in strings with constraints; tokens as random
weights write them; those of BFCL's reference calls."""
TEXTS: Sequence[Text] = ("natural", "random", "reference", *get_args(Strings))

RAMP_STEPS = 40
"""The streams of a block begin one after the other, in this number of steps."""
SETTLING_STEPS = 100
"""Steps after which responses begin and end independently of each other."""
MOST_RESPONSES = 2000
SECTIONS = ("schedule", "bitmask", "update", "worker")
"""The parts of a step in which enforcement takes part: vLLM's scheduler schedules, fills the
bitmask, and processes the sampled tokens. In the worker, the bitmask is copied to the GPU and
applied, or a logits processor computes masks, copies and applies them."""
COPIED = "copied"
"""Bytes that the worker copies to the GPU, beside the sections' nanoseconds."""


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
    drafts: int = 0
    """Maximum number of draft tokens of forced text in a step of a sequence."""
    profiled: Kind | None = None

    def responses(self, streams: int) -> int:
        """About as many as a kind gets requests, if responses have 80 tokens. They are used again
        if there are not enough."""
        steps = RAMP_STEPS + SETTLING_STEPS + self.steps
        return min(MOST_RESPONSES, (self.rounds + 1) * streams * (2 + steps // 80))


@dataclass(frozen=True)
class Step:
    tokens: int
    sequences: int
    """That got tokens."""
    ns: Counter[str]
    """Processor time by section, and `COPIED`."""
    ended: float


@dataclass(frozen=True)
class Block:
    """Consecutive steps of one kind. Times are µs of processor time of the engine's main thread."""

    tokens: float
    """Mean per step."""
    sequences: float
    """Mean number that got tokens in a step."""
    by_section: dict[str, float]
    """Mean per sequence and step."""
    median: float
    """Of the sum of all sections in a step, per sequence."""
    process: float
    """Of all threads of the process, per sequence and step."""
    step_ms: float
    """Wall time of the median step."""
    step_p99_ms: float
    tokens_per_second: float
    copied: float = 0.0
    """Bytes that the worker copies to the GPU, per sequence and step, if they were counted."""

    @property
    def mean(self) -> float:
        return sum(self.by_section.values())


@dataclass
class Measured:
    """The blocks of one kind."""

    cold: Block
    """From the kind's first request in the process on."""
    warm: list[Block] = field(default_factory=list)
    """One per round, in a steady state."""
    copied: float = 0.0
    """Of a further block."""


@dataclass(frozen=True)
class Session:
    streams: int
    text: Text
    kinds: dict[Kind, Measured]
    checked: int
    """Tokens that were looked up in a mask."""
    profile: str = ""
    vllm: str = ""
    """Its version."""


def block_of(steps: Sequence[Step], process_ns: int) -> Block:
    sequences = sum(step.sequences for step in steps)
    spent = sum((step.ns for step in steps), Counter[str]())
    gaps = sorted(after.ended - before.ended for before, after in pairwise(steps))
    sums = [sum(step.ns[s] for s in SECTIONS) / step.sequences for step in steps if step.sequences]
    return Block(
        tokens=sum(step.tokens for step in steps) / len(steps),
        sequences=sequences / len(steps),
        by_section={section: spent[section] / sequences / 1e3 for section in SECTIONS},
        median=statistics.median(sums) / 1e3,
        process=process_ns / sequences / 1e3,
        step_ms=statistics.median(gaps) * 1e3,
        step_p99_ms=gaps[int(0.99 * (len(gaps) - 1))] * 1e3,
        tokens_per_second=sum(step.tokens for step in steps[1:]) / sum(gaps),
        copied=spent[COPIED] / sequences,
    )
