"""Random requests of bench/fuzz. `make fuzz` sends ten thousand."""

from __future__ import annotations

import httpx

from bench.fuzz.run import fuzz

from .conftest import status
from .stack import Stack

REQUESTS = 250


async def test_random_requests_violate_nothing_and_leave_nothing_behind(
    stack: Stack, backend: httpx.Client, bias: dict[str, float]
) -> None:
    findings = await fuzz(
        stack.url,
        stack.master_key,
        model="tiny",
        requests=REQUESTS,
        concurrency=16,
        seed=1,
        bias=bias,
    )
    assert not findings.violations, findings.report()
    assert findings.outcomes["200"] > REQUESTS / 2
    left = status(backend)
    assert (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)
