"""Separate engines for prefill and decode, behind a router that passes the KV cache from one to the
other. vLLM's example connector writes it to files, which also works without a GPU."""

import json
import shutil
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests import tools
from tests.models import tiny_model
from tests.support.agents.client_packages import router_python
from tests.support.effort import repeats
from tests.support.servers import gateway_process
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer, sync_client
from tests.support.servers.loopback import in_thread
from toolgate_proxy.ops.stack.processes import Child, free_port

from . import kit
from .servers import FEW_PLACES, adapters, await_backend, await_model, vllm

pytestmark = pytest.mark.slow

SEEDS = repeats(5, nightly=100)
WORDS = 120
"""Groups of words in a prompt, which is then several blocks of the cache long."""
PREFILL = {"do_remote_decode": True, "do_remote_prefill": False}


@dataclass
class Engines:
    """Two equal engines, which share a folder for the cache of prompts."""

    urls: tuple[str, str]
    key: str
    folder: Path
    steps: list[dict[str, Any]] = field(default_factory=list)
    """Responses of prefill steps."""


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    logs = tmp_path_factory.mktemp("prefill-decode")
    (folder := logs / "kv").mkdir()
    connector = {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }
    flags = ["--served-model-name", "tiny", "--max-num-seqs", str(FEW_PLACES)]
    # Blocks of an engine's own cache would not be read from the other engine.
    flags += ["--no-enable-prefix-caching", "--kv-transfer-config", json.dumps(connector)]
    key, ports = uuid.uuid4().hex, (free_port(), free_port())
    urls = (f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")
    started = list[Child]()
    try:
        for name, port in zip(("prefill", "decode"), ports, strict=True):
            started.append(vllm(name, tiny_model(), port, key, adapters()[0], flags, logs))
        for child, url in zip(started, urls, strict=True):
            await_backend(child, url, key, Event())
        yield Engines(urls, key, folder)
        for child in started:
            child.check()
    finally:
        for child in started:
            child.stop()


@contextmanager
def own_router(engines, logs):
    """Yield the URL of a router with the least that such a router does."""
    client = httpx.AsyncClient(headers=bearer(engines.key), timeout=300, trust_env=False)

    async def route(request):
        body = await request.json()
        prefill, decode = (f"{url}{request.url.path}" for url in engines.urls)
        first = body | {"max_tokens": 1, "stream": False, "kv_transfer_params": PREFILL}
        step = await client.post(prefill, json=first)
        if step.is_error:
            return Response(step.content, step.status_code)
        if "choices" in step.json():
            engines.steps.append(step.json())
        transfer = step.json().get("kv_transfer_params") or {"do_remote_prefill": True}
        sent = client.build_request("POST", decode, json=body | {"kv_transfer_params": transfer})
        response = await client.send(sent, stream=True)
        return StreamingResponse(
            response.aiter_raw(), response.status_code, media_type=response.headers["content-type"]
        )

    with in_thread(Starlette(routes=[Route(kit.CHAT, route, methods=["POST"])])) as url:
        yield url


@contextmanager
def vllm_router(engines, logs):
    """Yield the URL of vLLM's router. Skip the test if its package can't be obtained."""
    port, program = free_port(), router_python().with_name("vllm-router")
    options = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    options += ["--vllm-pd-disaggregation", "--policy", "round_robin"]
    options += ["--prefill", engines.urls[0], "--decode", engines.urls[1]]
    # It sends this key to the engines instead of the gateway's.
    environment = {"OPENAI_API_KEY": engines.key}
    router = Child("router", [str(program), *options], environment, logs / "router.log")
    try:
        yield f"http://127.0.0.1:{port}"
        router.check()
    finally:
        router.stop()


@pytest.fixture(scope="module", params=[own_router, vllm_router])
def http(request, engines, tmp_path_factory):
    """A client of a gateway with two models: `apart`, behind a router, and `alone`, the engine for
    prefill."""
    logs = tmp_path_factory.mktemp("router")
    start = request.param
    with ExitStack() as held:
        url = held.enter_context(start(engines, logs))
        models = ["--model", f"apart=tiny@{url}", "--model", f"alone=tiny@{engines.urls[0]}"]
        gateway = held.enter_context(
            gateway_process.serving(
                models, engines.urls[0], logs / "log", TOOLGATE_BACKEND_KEY=engines.key
            )
        )
        client = held.enter_context(sync_client(gateway.url, MASTER_KEY, timeout=300))
        await_model(client, "apart")
        yield client


def asked(seed, bias, tag=""):
    """Every other request has a new tool."""
    known = tools.ALL[seed % len(tools.ALL)]
    name = known["function"]["name"] + (f"_{tag}_{seed}" if seed % 2 else "")
    tool = {"type": "function", "function": {**known["function"], "name": name}}
    text = " ".join(f"word {at} {seed}" for at in range(WORDS))
    return {
        "messages": [{"role": "user", "content": f"{tag} {seed} {text}"}],
        "tools": [tool],
        "tool_choice": ("required", "auto", {"type": "function", "function": {"name": name}})[
            seed % 3
        ],
        "seed": seed,
        "temperature": 1.0,
        "max_tokens": 200,
        "logit_bias": bias,
        "return_token_ids": True,
    }


def answers(http, model, request, *, stream):
    [reply] = kit.ask(http, {**request, "model": model}, stream=stream)
    kit.check(kit.output(reply), request["tools"])
    return reply


def test_calls_and_tokens_are_those_of_one_engine(http, engines, bias, request):
    tag = uuid.uuid4().hex[:6]
    requests = [(asked(seed, bias, tag), seed // 2 % 2 == 1) for seed in range(SEEDS)]
    engines.steps.clear()
    apart = [answers(http, "apart", each, stream=stream) for each, stream in requests]
    shutil.rmtree(engines.folder)  # the engine computes each prompt again
    engines.folder.mkdir()
    alone = [answers(http, "alone", each, stream=stream) for each, stream in requests]
    assert [(kit.output(each), each.token_ids) for each in apart] == [
        (kit.output(each), each.token_ids) for each in alone
    ]
    assert all(each.token_ids for each in apart)
    assert sum(len(each.answer.calls) for each in apart) >= SEEDS // 2
    for own, transferred in zip(alone, apart, strict=True):
        assert own.answer.usage
        assert transferred.answer.usage
        assert not own.answer.usage.cached
        tokens = transferred.answer.usage.prompt
        assert tokens == own.answer.usage.prompt
        # All blocks but the last one.
        assert tokens / 2 < (transferred.answer.usage.cached or 0) < tokens
    assert all(not each["choices"] for each in engines.steps)
    if request.node.callspec.params["http"] is own_router:
        assert len(engines.steps) >= SEEDS


REFUSED = {
    "schema": {
        "tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": "no"}}}]
    },
    "budget": {"tool_choice": "required", "tools": [tools.TAGS], "max_tokens": 2},
    "prompt": {"messages": [{"role": "user", "content": "one two " * 20_000}]},
    "transfer": {"kv_transfer_params": PREFILL},
}


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED)
def test_refusals_are_those_of_one_engine(http, bias, more):
    request = asked(1, bias) | more
    apart, alone = (kit.refusal(http, {**request, "model": each}) for each in ("apart", "alone"))
    assert apart == alone


@pytest.mark.parametrize("choices", [1, 2])
def test_several_choices_are_each_valid(http, bias, choices):
    request = asked(3, bias) | {"model": "apart", "n": choices}
    replies = kit.ask(http, request)
    assert len(replies) == choices
    for reply in replies:
        kit.check(kit.output(reply), request["tools"])
