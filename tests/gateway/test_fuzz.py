"""Some hundred random requests (bench/fuzz; ten thousand by `make fuzz`)."""

from __future__ import annotations

import httpx

from bench.fuzz.run import fuzz

from .conftest import Stack, status

REQUESTS = 250


async def test_random_requests_keep_their_promises(
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
