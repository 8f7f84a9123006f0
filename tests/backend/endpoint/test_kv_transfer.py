"""Requests from a router between a prefill and a decode engine, over vLLM's own configuration and
renderer, without an engine."""

import json
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over, source
from toolgate_backend.endpoint.routes import attach
from toolgate_backend.endpoint.service import Service
from toolgate_backend.enforcement.spec import EXTRA_ARG
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import from_model_config
from toolgate_core import wire
from toolgate_core.chat_shape import PATH, body_of
from toolgate_core.errors import ContextLengthExceeded, GrammarsRefused

from .test_service import CONTEXT, Engine, chat, with_tools

PREFILL = {"do_remote_decode": True, "do_remote_prefill": False}
DECODE = {"do_remote_prefill": True, "remote_block_ids": [1], "remote_request_id": "p"}
ID = "___prefill_addr_a:1___decode_addr_b:2_7"


class Connected(Engine):
    """An engine with a KV connector."""

    def __init__(self):
        super().__init__()
        self.vllm_config.kv_transfer_config = SimpleNamespace()
        self.calls = []
        self.freed = []

    async def generate(self, prompt, params, request_id, **others):
        self.calls.append((prompt["prompt_token_ids"], params, request_id, others))
        yield SimpleNamespace(
            num_cached_tokens=2, kv_transfer_params=DECODE, prompt_logprobs=None, outputs=()
        )

    async def notify_kv_transfer_request_rejected(self, *sent, **more):
        self.freed.append((*sent, more))


@pytest.fixture(scope="module")
def connected():
    engine = Connected()
    yield engine
    engine.renderer.shutdown()


@pytest.fixture
def engine(connected):
    connected.calls.clear()
    connected.freed.clear()
    return connected


@pytest.fixture
def service(engine, vocabulary, monkeypatch):
    models = SimpleNamespace(base_model_paths=[SimpleNamespace(name="tiny")], lora_requests={})
    made = Service(engine, models, from_model_config(engine.model_config), Settings())
    registry = registry_over(WorkerRpc(vocabulary), Bench(vocabulary), Clock())
    monkeypatch.setattr(made, "_registry", registry)
    return made


@pytest.fixture
def http(service):
    app = FastAPI()
    app.state.args = SimpleNamespace(api_key=None)
    app.state.toolgate = service
    attach(app)
    return TestClient(app)


def required(*sources, **sampling):
    """A request that must call a tool."""
    made = with_tools(*sources)
    assert made.enforcement is not None
    enforcement = made.enforcement.model_copy(update={"choice": "required"})
    return made.model_copy(update={"enforcement": enforcement}).model_copy(
        update={"sampling": wire.Sampling(**{"max_tokens": 50, **sampling})}
    )


STEPS = {
    "nixl": {"max_tokens": 1, "min_tokens": 1, "stream": False, "kv_transfer_params": PREFILL},
    "both limits": {
        "max_tokens": 1,
        "max_completion_tokens": 1,
        "stream": False,
        "kv_transfer_params": {**PREFILL, "remote_engine_id": None, "remote_block_ids": None},
    },
    "shared storage": {"max_tokens": 1, "max_completion_tokens": 1, "cache_hit_threshold": 0},
}


@pytest.mark.parametrize("changes", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_prefill_step_has_neither_enforcement_nor_tokens(http, service, engine, changes, stream):
    """Its tool would be refused, and a call does not fit one token."""
    request = required(source("b", type="strange")).model_copy(update={"stream": stream})
    body = json.loads(body_of("generate", request, "")) | changes
    response = http.post(PATH, json=body)
    assert response.status_code == 200, response.text
    found = response.json()
    [(ids, params, _, _)] = engine.calls
    assert found["choices"] == []
    assert found["kv_transfer_params"] == DECODE
    counts = {"prompt_tokens": len(ids), "completion_tokens": 0, "total_tokens": len(ids)}
    assert found["usage"] == counts
    transfer = changes.get("kv_transfer_params")
    assert params.extra_args == (transfer and {"kv_transfer_params": transfer})
    assert (params.max_tokens, params.ignore_eos, params.structured_outputs) == (1, True, None)
    assert service._registry.pinned == 0


def test_a_prefill_step_is_refused_as_the_request_itself(http, engine):
    """The router returns the refusal, before a decode engine is asked."""
    made = required(source("a"), max_tokens=CONTEXT)
    body = json.loads(body_of("generate", made, "")) | STEPS["nixl"]
    response = http.post(PATH, json=body)
    assert response.status_code == 400
    expected = ContextLengthExceeded.of_tokens(CONTEXT, 0, CONTEXT, param="max_tokens").body()
    assert response.json()["error"]["param"] == expected["error"]["param"]
    assert not engine.calls


def test_both_engines_compute_the_same_prompt(http, engine):
    """Also if it is truncated to leave room for `max_tokens`, and if it continues a response."""
    prompt = wire.ChatPrompt(
        messages=({"role": "user", "content": "one two three " * CONTEXT},),
        tokenizing=wire.Tokenizing(truncate_prompt_tokens=-1),
    )
    made = chat("").model_copy(
        update={
            "prompt": prompt,
            "accepted": (5, 6),
            "sampling": wire.Sampling(max_tokens=20),
            "stream": False,
        }
    )
    body = json.loads(body_of("generate", made, ""))
    http.post(PATH, json=body | STEPS["nixl"])
    http.post(PATH, json=body | {"kv_transfer_params": DECODE})
    (prefilled, *_), (decoded, *_) = engine.calls
    assert prefilled == decoded
    assert len(decoded) == CONTEXT - 20


@pytest.mark.parametrize("changes", [{}, {"kv_transfer_params": None}, {"max_tokens": 0}])
async def test_a_request_without_transfer_has_none(http, engine, changes):
    """`max_tokens` of 0 comes from a router that restores the missing one."""
    made = required(source("a")).model_copy(update={"stream": False})
    response = http.post(PATH, json=json.loads(body_of("generate", made, "")) | changes)
    assert response.status_code == 200, response.text
    assert isinstance(response.json(), list)
    [(_, params, *_)] = engine.calls
    assert params.extra_args.keys() == {EXTRA_ARG}
    assert params.max_tokens == 50


async def test_a_clients_single_token_is_no_prefill_step(http, engine):
    made = chat("t").model_copy(update={"stream": False})
    response = http.post(PATH, json=json.loads(body_of("generate", made, "")))
    assert [each["event"] for each in response.json()] == ["start", "usage"]


@pytest.mark.parametrize(
    ("sampling", "transferred"), [({}, True), ({"n": 2}, False), ({"prompt_logprobs": 0}, False)]
)
async def test_a_decode_step_is_enforced(service, engine, sampling, transferred):
    made = required(source("a"), **sampling).model_copy(update={"kv_transfer_params": DECODE})
    headers = {"x-request-id": ID, "x-data-parallel-rank": "1"}
    assert [each async for each in service.generate(made, headers)]
    [(_, params, request_id, others)] = engine.calls
    assert params.extra_args[EXTRA_ARG]["choice"] == "required"
    assert params.extra_args.get("kv_transfer_params") == (DECODE if transferred else None)
    assert request_id == (f"chatcmpl-{ID}" if transferred else "r")
    assert others["data_parallel_rank"] == 1
    assert not engine.freed


@pytest.mark.parametrize("more", [{"n": 2}, {"prompt_logprobs": 0}])
async def test_no_engine_keeps_blocks_that_none_reads(service, engine, more):
    made = required(source("a"), **more).model_copy(update={"kv_transfer_params": PREFILL})
    await service.prefill(made)
    [(_, params, *_)] = engine.calls
    assert (params.n, params.extra_args) == (1, None)


@pytest.mark.parametrize(
    ("transfer", "sampling", "freed"),
    [
        (DECODE, {}, True),
        (DECODE, {"n": 2}, False),
        ({**DECODE, "do_remote_prefill": False}, {}, False),
        (None, {}, False),
    ],
)
async def test_blocks_of_a_refused_request_are_freed(service, engine, transfer, sampling, freed):
    made = required(source("b", type="strange"), **sampling)
    made = made.model_copy(update={"kv_transfer_params": transfer})
    with pytest.raises(GrammarsRefused):
        await anext(service.generate(made, {"x-request-id": ID}))
    expected = [(f"chatcmpl-{ID}", DECODE, {"data_parallel_rank": None})]
    assert engine.freed == (expected if freed else [])
    assert not engine.calls


async def test_without_a_connector_nothing_is_freed(service, engine, monkeypatch):
    monkeypatch.setattr(engine.vllm_config, "kv_transfer_config", None)
    made = required(source("b", type="strange"))
    with pytest.raises(GrammarsRefused):
        await anext(service.generate(made.model_copy(update={"kv_transfer_params": DECODE})))
    assert not engine.freed


@pytest.mark.parametrize("transfer", ["x", [1], 1])
def test_a_transfer_that_is_no_object_is_refused(http, engine, transfer):
    body = json.loads(body_of("generate", chat("t"), "")) | {"kv_transfer_params": transfer}
    response = http.post(PATH, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "kv_transfer_params"
    assert not engine.calls
