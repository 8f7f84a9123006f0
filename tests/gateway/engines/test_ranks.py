"""A model on two tensor-parallel ranks: grammars reach both, and the masks hold.

test_drafts.py covers two data-parallel engines.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest

from tests.gateway.engines.raw import OFFERED, SCHEMAS, calls, generate
from tests.gateway.servers import Backend, Servers, adapters
from tests.support.effort import repeats
from toolgate_core import wire

AT_ONCE, ASKED = 4, repeats(8, nightly=24)


@pytest.fixture
def two_ranks_second_adapter(servers: Servers) -> Backend:
    return servers.backend("two_ranks_second_adapter")


def test_every_call_is_valid_on_two_ranks(two_ranks: Backend) -> None:
    check_calls(two_ranks, adapters()[0])


@pytest.mark.slow
def test_every_call_is_valid_on_two_ranks_with_the_second_adapter(
    two_ranks_second_adapter: Backend,
) -> None:
    check_calls(two_ranks_second_adapter, adapters()[-1])


def check_calls(backend: Backend, adapter: str) -> None:
    with backend.client() as client, ThreadPoolExecutor(AT_ONCE) as pool:
        info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
        assert info.adapter == adapter
        answers = list(pool.map(lambda seed: _calls(client, seed), range(ASKED)))
    assert all(1 <= len(found) <= 2 for found in answers)
    for name, arguments in (call for found in answers for call in found):
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    assert len({call for found in answers for call in found}) > 4


def _calls(backend: httpx.Client, seed: int) -> list[tuple[str, str]]:
    ids, texts, finish = generate(backend, OFFERED, f"Go {seed}.", temperature=1.0)
    assert finish == "stop"
    return calls(backend, ids, texts)
