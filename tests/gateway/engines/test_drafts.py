"""Speculative decoding with enforcement: the masks hold, and drafts change no greedy answer.

The drafting backend drafts from the prompt and from what the grammars force.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import jsonschema
import pytest

from tests import tools
from tests.gateway.engines.raw import LIGHT, OFFERED, SCHEMAS, calls, generate
from tests.gateway.servers import FEW_PLACES, Backend, Servers
from tests.support.alert_rules import missing_series
from tests.support.effort import repeats
from toolgate_core import wire

SEEDS = repeats(8, nightly=24)


@pytest.fixture(scope="module")
def drafting(servers: Servers) -> Iterator[Backend]:
    """The backend with speculative decoding, on two data-parallel engines."""
    yield servers.backend("drafting")
    servers.stop("drafting")


@pytest.fixture
def drafts(drafting: Backend) -> Iterator[httpx.Client]:
    with drafting.client() as client:
        yield client


@pytest.fixture
def plain(target: Backend) -> Iterator[httpx.Client]:
    """The first backend, which does not draft."""
    with target.client() as client:
        yield client


def test_auto_selects_structured_output_with_drafts(drafts: httpx.Client) -> None:
    info = wire.Info.model_validate_json(drafts.get("/v1/toolgate/info").content)
    assert info.adapter == "structured_output"


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A table.", marks=pytest.mark.slow),
        "Light on!",
        "Book book book book book.",
    ],
)
def test_greedy_answers_are_the_same_with_and_without_drafts(
    drafts: httpx.Client, plain: httpx.Client, choice: str, text: str
) -> None:
    expected = generate(plain, OFFERED, text, choice=choice)
    assert generate(drafts, OFFERED, text, choice=choice) == expected
    assert expected[0]


def test_sampled_calls_are_valid_with_drafts_on_both_engines(
    drafting: Backend, drafts: httpx.Client
) -> None:
    """Several at once, so that both engines need the grammars. One connection, which stays with one
    of the two API servers, loads the grammars and uses them."""
    before = tokens_by_engine(drafts)

    def answer(seed: int) -> list[tuple[str, str]]:
        with drafting.client() as client:
            text = f"Go {seed}."
            ids, texts, finish = generate(client, OFFERED, text, temperature=1.0, seed=seed)
            assert finish == "stop"
            return calls(client, ids, texts)

    with ThreadPoolExecutor(2 * FEW_PLACES) as pool:
        answers = list(pool.map(answer, range(SEEDS)))
    assert all(1 <= len(found) <= 2 for found in answers)
    for name, arguments in (call for found in answers for call in found):
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    assert len({call for found in answers for call in found}) > 4
    after = tokens_by_engine(drafts)
    assert len(after) == 2
    assert all(tokens > before.get(engine, 0) for engine, tokens in after.items())


def test_forced_tokens_are_accepted_as_drafts(drafts: httpx.Client) -> None:
    before = sum(counted(drafts, "spec_decode_num_accepted_tokens").values())
    generate(drafts, [LIGHT], "The light in the kitchen, please.")
    assert sum(counted(drafts, "spec_decode_num_accepted_tokens").values()) > before


def test_vllms_metrics_include_ours_of_all_api_processes(drafts: httpx.Client) -> None:
    def compiles() -> float:
        return sum(metric(drafts, "toolgate_backend_grammar_compile_seconds_count{").values())

    assert missing_series(drafts.get("/metrics").text, backend=True) == []
    before = compiles()
    new = tools.tool("new_tool", {uuid4().hex: {"type": "integer"}})
    generate(drafts, [new], "Call it.")
    assert compiles() > before
    assert sum(metric(drafts, "toolgate_backend_loaded_grammars").values()) >= 1


def tokens_by_engine(client: httpx.Client) -> dict[str, float]:
    return counted(client, "generation_tokens")


def counted(client: httpx.Client, what: str) -> dict[str, float]:
    """vLLM's counter, by its labels."""
    found = metric(client, f"vllm:{what}_total{{")
    assert found, f"vLLM has no counter {what}"
    return found


def metric(client: httpx.Client, beginning: str) -> dict[str, float]:
    """The metrics whose lines have this beginning, by name and labels."""
    lines = client.get("/metrics").text.splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith(beginning)]
    return {labels: float(value) for labels, _, value in found}


def test_parameters_that_vllm_refuses_with_drafts_are_answered_400(drafts: httpx.Client) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        generate(drafts, [LIGHT], "Hi.", logit_bias={5: 1.0})
    assert refused.value.response.status_code == 400
