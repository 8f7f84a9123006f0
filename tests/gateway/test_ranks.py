"""A model on several processes: grammars reach all of those that need them, and the masks hold."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest

from toolgate_core import wire

from .raw import OFFERED, SCHEMAS, calls, generate, started

AT_ONCE, ASKED = 4, 24
# vLLM would bind each rank to a NUMA node of its own.
UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@pytest.mark.parametrize(
    ("flag", "adapter"),
    [
        ("--tensor-parallel-size", "logits_processor"),
        ("--tensor-parallel-size", "structured_output"),
        ("--data-parallel-size", "structured_output"),
    ],
)
def test_every_call_is_valid_on_two_ranks(
    flag: str, adapter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with started([flag, "2"], adapter, tmp_path_factory.mktemp("ranks"), UNBOUND) as backend:
        info = wire.Info.model_validate_json(backend.get("/v1/toolgate/info").content)
        assert info.adapter == adapter
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda seed: _calls(backend, seed), range(ASKED)))
        assert all(1 <= len(found) <= 2 for found in answers)
        for name, arguments in (call for found in answers for call in found):
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
        assert len({call for found in answers for call in found}) > 4


def _calls(backend: httpx.Client, seed: int) -> list[tuple[str, str]]:
    ids, texts, finish = generate(backend, OFFERED, f"Go {seed}.", temperature=1.0)
    assert finish == "stop"
    return calls(backend, ids, texts)
