"""The configuration of one simulated engine, chosen by its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

Adapter = Literal["logits_processor", "structured_output"]
Shape = Literal["none", "forced", "ngram", "suffix", "mtp", "eagle"]
"""`forced` are Toolgate's drafts of forced text under async scheduling. `ngram` and `suffix` draft
from the text, 0 to k tokens. `mtp` and `eagle` always draft k tokens, as a model does, right or
wrong."""


@dataclass(frozen=True)
class Profile:
    seed: int
    adapter: Adapter
    shape: Shape
    drafts: int
    """Maximum number of draft tokens in a step."""
    async_scheduling: bool
    rows: int
    """Maximum number of sequences in the batch."""
    blocks: int
    """Blocks of the KV cache, of 16 tokens. Few blocks make the scheduler preempt."""
    batched_tokens: int
    agreement: float
    """Probability that the model wants what was drafted."""
    abort: float
    """Probability of an abort in a step."""


def profile_of(seed: int, shape: Shape | None = None) -> Profile:
    """The engine of a seed. With `forced`, the same engine with drafts of forced text."""
    found = _chosen(seed)
    if shape != "forced":
        return found
    return replace(
        found,
        adapter="structured_output",
        shape="forced",
        drafts=found.drafts or 8,
        async_scheduling=True,
    )


def _chosen(seed: int) -> Profile:
    rng = random.Random(f"profile-{seed}")
    adapter: Adapter = rng.choice(("structured_output", "structured_output", "logits_processor"))
    shape: Shape = "none"
    if adapter == "structured_output":  # vLLM runs no V1 logits processors with drafts
        shape = rng.choice(("none", "ngram", "suffix", "mtp", "eagle"))
    drafts = 0 if shape == "none" else rng.choice((1, 2, 4, 8))
    rows = rng.choice((1, 2, 3, 4, 8, 8, 16, 64))
    return Profile(
        seed=seed,
        adapter=adapter,
        shape=shape,
        drafts=drafts,
        async_scheduling=rng.random() < 0.5,
        rows=rows,
        blocks=24 + rows * rng.choice((3, 6, 24)),
        batched_tokens=max(rows * (1 + drafts) * 2, rng.choice((32, 64, 512))),
        agreement=rng.choice((0.0, 0.3, 0.7, 0.95)),
        abort=rng.choice((0.0, 0.02, 0.2)),
    )
