"""Random requests of tests/long/fuzz, of which `python -m tests.long fuzz` sends ten thousand."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.conftest import status
from tests.gateway.servers import Gateway
from tests.long.fuzz.run import fuzz, left_in_gateway
from tests.support.effort import repeats
from toolgate_verify.terms import Api

REQUESTS = {
    Api.CHAT: repeats(30, nightly=320),
    Api.RESPONSES: repeats(24, nightly=80),
    Api.MESSAGES: repeats(24, nightly=80),
}


@pytest.mark.parametrize("api", Api)
async def test_random_requests_violate_nothing_and_leave_nothing_behind(
    gateway: Gateway, backend: httpx.Client, model: str, bias: dict[str, float], api: Api
) -> None:
    findings = await fuzz(
        gateway.url,
        gateway.key,
        model=model,
        count=REQUESTS[api],
        concurrency=16,
        seed=1,
        bias=bias,
        api=api,
    )
    assert not findings.violations, findings.report()
    answered = REQUESTS[api] - findings.outcomes["disconnected"]  # how many depends on the machine
    assert findings.outcomes["200"] > answered / 2, findings.report()
    left = status(backend)
    assert (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)
    assert not await left_in_gateway(gateway.url, gateway.key)
