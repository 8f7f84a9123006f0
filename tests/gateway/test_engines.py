"""Engines in other forms, each a server of its own: speculative decoding on two data-parallel
engines, tensor-parallel ranks, and a LoRA adapter. The masks hold in all of them."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest

from tests import tools
from tests.models import tiny_model
from tests.support.alert_rules import missing_series
from tests.support.servers.http_client import sync_client
from toolgate_core import wire
from toolgate_proxy.ops.demo.cases import ChoiceOutput
from toolgate_proxy.ops.demo.model import closers

from .kit import CHAT, GENERATED, LIGHT, OFFERED, check, generate, metric, sampled_calls, series
from .servers import FEW_PLACES, LORA, adapters

pytestmark = pytest.mark.slow
SEEDS = range(24)


# --- drafts, from the prompt and from what the grammars force ---


@pytest.fixture(scope="module")
def drafting(servers):
    """The backend with speculative decoding, on two data-parallel engines."""
    yield servers.backend("drafting")
    servers.stop("drafting")


@pytest.fixture
def drafts(drafting):
    with drafting.client() as client:
        yield client


@pytest.fixture
def plain(target):
    """The first backend, which does not draft."""
    with target.client() as client:
        yield client


def adapter_of(client):
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    return str(info.adapter)


def test_auto_selects_structured_output_with_drafts(drafts):
    assert adapter_of(drafts) == "structured_output"


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("text", ["A table.", "Light on!", "Book book book book book."])
def test_greedy_answers_are_the_same_with_and_without_drafts(drafts, plain, choice, text):
    expected = generate(plain, OFFERED, text, choice=choice)
    assert generate(drafts, OFFERED, text, choice=choice) == expected
    assert expected[0]


def test_sampled_calls_are_valid_with_drafts_on_both_engines(drafting, drafts):
    """Several at once, so that both engines and both API servers need the grammars."""
    before = series(drafts, GENERATED)

    def answer(seed):
        with drafting.client() as client:
            return sampled_calls(client, f"Go {seed}.", seed=seed)

    with ThreadPoolExecutor(2 * FEW_PLACES) as pool:
        answers = list(pool.map(answer, SEEDS))
    assert len({call for found in answers for call in found}) > 4
    after = series(drafts, GENERATED)
    assert len(after) == 2
    assert all(tokens > before.get(engine, 0) for engine, tokens in after.items())


def test_forced_tokens_are_accepted_as_drafts(drafts):
    accepted = "vllm:spec_decode_num_accepted_tokens_total{"
    before = metric(drafts, accepted)
    generate(drafts, [LIGHT], "The light in the kitchen, please.")
    assert metric(drafts, accepted) > before


def test_vllms_metrics_include_ours_of_all_api_processes(drafts):
    compiles = "toolgate_backend_grammar_compile_seconds_count{"
    assert missing_series(drafts.get("/metrics").text, backend=True) == []
    before = metric(drafts, compiles)
    new = tools.tool("new_tool", {uuid4().hex: {"type": "integer"}})
    generate(drafts, [new], "Call it.")
    assert metric(drafts, compiles) > before
    assert metric(drafts, "toolgate_backend_loaded_grammars") >= 1


def test_parameters_that_vllm_refuses_with_drafts_are_answered_400(drafts):
    with pytest.raises(httpx.HTTPStatusError) as refused:
        generate(drafts, [LIGHT], "Hi.", logit_bias={5: 1.0})
    assert refused.value.response.status_code == 400


# --- two tensor-parallel ranks ---


@pytest.fixture
def two_ranks_second_adapter(servers):
    return servers.backend("two_ranks_second_adapter")


def test_every_call_is_valid_on_two_ranks(two_ranks):
    check_calls(two_ranks, adapters()[0])


def test_every_call_is_valid_on_two_ranks_with_the_second_adapter(two_ranks_second_adapter):
    check_calls(two_ranks_second_adapter, adapters()[-1])


def check_calls(backend, adapter):
    with backend.client() as client, ThreadPoolExecutor(FEW_PLACES) as pool:
        assert adapter_of(client) == adapter
        answers = list(pool.map(lambda seed: sampled_calls(client, f"Go {seed}."), SEEDS))
    assert len({call for found in answers for call in found}) > 4


# --- LoRA ---


def test_a_lora_adapter_answers_requests_for_its_name(impatient_gateway, second, servers):
    servers.gateway("impatient_gateway", LORA)
    with sync_client(impatient_gateway.url, impatient_gateway.key, timeout=300) as http:

        def answer(model, **more):
            body = {"model": model, "messages": [{"role": "user", "content": "Go on."}], **more}
            response = http.post(CHAT, json={**body, "reasoning_effort": "none"})
            assert response.status_code == 200, response.text
            return response.json()

        greedy = [answer(each, max_tokens=12, temperature=0) for each in ("second", LORA)]
        texts = [each["choices"][0]["message"]["content"] for each in greedy]
        assert texts[0] != texts[1]
        assert greedy[1]["model"] == LORA
        forced = {"tools": [tools.WEATHER], "tool_choice": "required", "max_tokens": 300}
        called = answer(LORA, **forced, logit_bias=closers(tiny_model()), seed=11)
    choice = called["choices"][0]
    functions = [each["function"] for each in choice["message"]["tool_calls"]]
    calls = [(each["name"], each["arguments"]) for each in functions]
    check(ChoiceOutput(calls=calls, finish_reason=choice["finish_reason"]), [tools.WEATHER])
    assert len(calls) > (choice["finish_reason"] == "length")
