"""Settings and parameters of LiteLLM for our models: `max_parallel_requests` of deployments, tags,
and others of its parameters in requests."""

import asyncio
from contextlib import asynccontextmanager

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.proxy.server.kit import APIS
from tests.support.effort import sampled
from tests.support.litellm.own_route import PATHS, body_of, ours
from tests.support.litellm.router import use
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.litellm_host.routing import fallbacks
from toolgate_proxy.litellm_host.routing.selection import SelectionHook
from toolgate_proxy.ops.stack.processes import free_port

STRATEGIES = {"own": {}, "router": {"routing_strategy": "usage-based-routing-v2"}}
HANG = Script(("Hello there",), hang_after=2)


async def ask(gateway, api="chat", leave=None, **params):
    return await gateway.ask(body_of(api, **params), path=PATHS[api], leave_after=leave)


@asynccontextmanager
async def held(gateway, backend, **params):
    """Runs while another request is in flight at the backend."""
    leave, before = asyncio.Event(), len(backend.requests)
    backend.scripts["hang"] = HANG
    asking = asyncio.create_task(ask(gateway, leave=leave, content="hang", **params))
    await until(lambda: len(backend.requests) > before)
    try:
        yield
    finally:
        leave.set()
        await asking


def limited(backend, name="a", group="tiny", **more):
    made = ours(backend, group, **{"max_parallel_requests": 1, **more})
    made["model_info"]["id"] = name
    return made


@pytest.fixture
def second():
    with running(FakeBackend()) as backend:
        backend.scripts |= {"hi": Script(("From the second one",)), "hang": HANG}
        yield backend


@sampled("api, way", PATHS, [(s, stream) for s in STRATEGIES for stream in (True, False)], one_in=2)
async def test_request_beyond_the_limit_is_refused_until_another_one_ends(
    gateway, monkeypatch, api, way
):
    strategy, stream = way
    use(monkeypatch, limited(gateway.backend), **STRATEGIES[strategy])
    async with held(gateway, gateway.backend, api=api, stream=stream):
        refused = await ask(gateway, api)
        assert (refused.status, refused.context.outcome.code) == (429, "rate_limit_exceeded")
        assert refused.headers[b"retry-after"] == b"1"
        assert b"max_parallel_requests" in b"".join(refused.bodies)
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    for body in ({"content": "breaks"}, {"temperature": "hot"}, {"content": "breaks"}):
        assert (await ask(gateway, api, **body)).status in (400, 500, 502)
    assert (await ask(gateway, api, stream=stream)).status == 200
    assert not gateway.host.passed


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_request_goes_to_a_deployment_with_a_free_slot(
    gateway, second, monkeypatch, strategy
):
    rows = limited(gateway.backend), limited(second, "b")
    use(monkeypatch, *rows, **STRATEGIES[strategy])
    hook = SelectionHook(fallbacks.selection())
    monkeypatch.setattr(litellm, "callbacks", [hook])
    gateway.backend.scripts["hang"] = HANG
    leave = asyncio.Event()
    asking = [asyncio.create_task(ask(gateway, leave=leave, content="hang")) for _ in range(2)]
    await until(lambda: len(gateway.backend.requests) == len(second.requests) == 1)
    assert (await ask(gateway)).status == 429
    leave.set()
    await asyncio.gather(*asking)
    assert (await ask(gateway)).status == 200


async def test_refused_request_goes_on_to_a_fallback(gateway, second, monkeypatch):
    rows = limited(gateway.backend), limited(second, "b", "other")
    use(monkeypatch, *rows, fallbacks=[{"tiny": ["other"]}])
    async with held(gateway, gateway.backend):
        response = await ask(gateway)
    assert (response.status, response.text) == (200, "From the second one")


async def test_request_that_moves_to_another_backend_takes_a_slot_there(
    gateway, second, monkeypatch
):
    gone = limited(gateway.backend, max_parallel_requests=9, weight=1)
    gone["litellm_params"]["api_base"] = f"http://127.0.0.1:{free_port()}"
    use(monkeypatch, gone, limited(second, "b", weight=0))
    async with held(gateway, second):
        refused = await ask(gateway)
        assert refused.status in (429, 503)
    assert len(second.requests) == 1
    assert (await ask(gateway)).status == 200


@APIS
async def test_tags_of_a_request_choose_the_deployment(gateway, monkeypatch, api):
    gold = limited(gateway.backend, tags=["gold"], temperature=0.25)
    lead = limited(gateway.backend, "b", tags=["lead"], temperature=0.75)
    use(monkeypatch, gold, lead, enable_tag_filtering=True)
    for tag, temperature in (("gold", 0.25), ("lead", 0.75), ("gold", 0.25)):
        assert (await ask(gateway, api, tags=[tag])).status == 200
        assert gateway.backend.requests[-1].sampling.temperature == temperature


PARAMETERS = {
    "tags": ["gold"],
    "guardrails": ["no-names"],
    "cache": {"no-cache": True},
    "litellm_metadata": {"trace": "a"},
    "user": "someone",
    "fallbacks": ["tiny"],
}


class Observer(CustomLogger):
    def __init__(self):
        super().__init__()
        self.data = {}

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.data = data


@sampled("api, observed", PATHS, [True, False], one_in=2)
async def test_parameters_of_litellm_are_accepted_if_they_have_their_types(
    gateway, monkeypatch, api, observed
):
    observer = Observer()
    monkeypatch.setattr(litellm, "callbacks", [observer] if observed else [])
    for name, value in PARAMETERS.items():
        assert (await ask(gateway, api, **{name: value})).status == 200, name
        refused = await ask(gateway, api, **{name: 3})
        assert name == "user" or refused.context.outcome.code == "invalid_request", name
    assert (await ask(gateway, api, **PARAMETERS)).status == 200
    if observed:
        assert "gold" in str(observer.data)
        assert "no-names" in str(observer.data)
        assert observer.data["user"] == "someone"
