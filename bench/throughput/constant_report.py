"""The table of a constant load."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.support.ratios import ratio
from tests.support.markdown import table


@dataclass(frozen=True)
class Measured:
    tokens_per_second: float
    step_ms: float
    gap_ms: float
    gap_p99_ms: float
    tokens: float
    """Of a response, on average."""
    responses: int
    calls: int
    truncated: int
    invalid: int


Found = dict[tuple[int, str], list[Measured]]
"""A measurement of each round, by the number of streams and the name of the target."""


def report(found: Found) -> str:
    head = ["streams", "server", "tokens/s", "÷ free", "÷ vLLM free", "step, ms"]
    head += [
        "between tokens, ms p50 / p99",
        "tokens per response",
        "responses",
        "calls",
        "truncated",
        "invalid",
    ]
    return table(
        head,
        ([each[0], *cells(found, *each, some)] for each, some in found.items()),
    )


def cells(found: Found, streams: int, name: str, some: Sequence[Measured]) -> list[str]:
    def median(attribute: str) -> float:
        return statistics.median(float(getattr(each, attribute)) for each in some)

    def compared(base: str) -> str:
        bases = found.get((streams, base), [])
        rates = [[each.tokens_per_second for each in side] for side in (some, bases)]
        if base == name or len(bases) != len(some) or not all(rates[1]):
            return ""
        return ratio(*rates)

    free = name.replace("enforced", "free")
    return [
        name,
        f"{median('tokens_per_second'):,.0f}",
        compared(free),
        compared("vllm, free"),
        f"{median('step_ms'):.2f}",
        f"{median('gap_ms'):.1f} / {median('gap_p99_ms'):.1f}",
        f"{median('tokens'):.0f}",
        *(
            f"{sum(getattr(each, count) for each in some):,}"
            for count in ("responses", "calls", "truncated", "invalid")
        ),
    ]
