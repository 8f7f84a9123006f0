"""Speculative decoding with enforcement: a second backend beside the stack's, which drafts from the
prompt and from what the grammars force. The masks hold, and the greedy answers are those of the
backend that drafts nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import jsonschema
import pytest

from toolgate_core import wire

from .conftest import Stack
from .raw import LIGHT, OFFERED, SCHEMAS, calls, generate, started

DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 6,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}


@pytest.fixture(scope="module")
def drafting(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    flags = ["--speculative-config", json.dumps(DRAFTS)]
    with started(flags, "auto", tmp_path_factory.mktemp("drafting")) as client:
        yield client


def test_drafts_go_through_vllms_own_grammars(drafting: httpx.Client) -> None:
    info = wire.Info.model_validate_json(drafting.get("/v1/toolgate/info").content)
    assert info.adapter == "structured_output"


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("text", ["A table.", "Light on!", "Book book book book book."])
def test_greedy_answers_are_the_same_with_drafts_and_without(
    drafting: httpx.Client, backend: httpx.Client, stack: Stack, choice: str, text: str
) -> None:
    headers = {"authorization": f"Bearer {stack.backend_key}"}
    with httpx.Client(
        base_url=stack.backend_url, headers=headers, timeout=60, trust_env=False
    ) as plain:
        expected = generate(plain, OFFERED, text, choice=choice)
    assert generate(drafting, OFFERED, text, choice=choice) == expected
    assert expected[0]


@pytest.mark.parametrize("seed", range(8))
def test_the_masks_hold_at_every_draft(drafting: httpx.Client, seed: int) -> None:
    ids, texts, finish = generate(drafting, OFFERED, "Go.", temperature=1.0, seed=seed)
    assert finish == "stop"
    found = calls(drafting, ids, texts)
    assert 1 <= len(found) <= 2
    for name, arguments in found:
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])


def test_drafts_save_steps(drafting: httpx.Client) -> None:
    before = counted(drafting, "accepted")
    generate(drafting, [LIGHT], "The light in the kitchen, please.")
    assert counted(drafting, "accepted") > before


def counted(client: httpx.Client, what: str) -> float:
    name = f"vllm:spec_decode_num_{what}_tokens_total"
    lines = client.get("/metrics").text.splitlines()
    values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)]
    assert values, f"vLLM has no counter {name}"
    return sum(values)


def test_parameters_that_vllm_does_not_take_beside_drafts_are_refused(
    drafting: httpx.Client,
) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        generate(drafting, [LIGHT], "Hi.", logit_bias={5: 1.0})
    assert refused.value.response.status_code == 400
