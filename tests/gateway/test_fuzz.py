"""Some hundred random requests (bench/fuzz.py; ten thousand by `make fuzz`)."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx

from .conftest import Stack, status

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from fuzz import fuzz

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
