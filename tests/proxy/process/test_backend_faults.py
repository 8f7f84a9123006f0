"""Backends that fail, that are hostile, or that accept requests and respond to none."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial

import pytest
import yaml

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, HI, MESSAGES, RESPONSES
from tests.support.apis.sdk_requests import asked
from tests.support.effort import rotating
from tests.support.servers import hostile_backend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.heartbeat import heartbeat
from tests.support.servers.hostile_backend import ATTACKS, HostileBackend, events, streamed, usage
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until
from toolgate_proxy.backend_client import client
from toolgate_proxy.server.launcher import Route, make_config

MORE_BYTES = 64_000_000
"""Memory that an attack may take."""
LONGEST_PAUSE = 0.25
"""Seconds in which the gateway may serve no other client."""
PROMPT = 5.0
"""Seconds, far less than any time-out of a request, and enough for a busy machine."""


@BOTH_ROUTES
@pytest.mark.parametrize("hang_after", [0, 2])
@pytest.mark.parametrize("stream", [True, False])
async def test_disconnect_ends_the_backend_request(http, backend, stream, hang_after):
    backend.scripts["hang"] = Script(("Hello there",), hang_after=hang_after)
    request = asyncio.create_task(http.post(CHAT, json=asked("hang", stream=stream), timeout=60))
    async with asyncio.timeout(60):
        while not backend.requests:  # noqa: ASYNC110  the list is of another thread
            await asyncio.sleep(0.05)
    request.cancel()
    await asyncio.wait([request])
    assert len(backend.requests) == 1
    assert await backend.idle_within(10)
    assert backend.left


@dataclass(frozen=True)
class Attacked:
    """Models of a hostile backend; `insured` falls back to `spare`, whose backend is honest."""

    gateway: Gateway
    backend: HostileBackend
    redis: RedisServer

    async def until(self, http, *, up):
        ready = partial(http.get, "/toolgate/ready/tiny")
        await until(ready, 60, lambda response: response.is_success == up)


def always_ask():
    client.INFO_TTL = 0.0


@pytest.fixture(scope="module")
def attacked_on(backend_of_session, spare_redis, tmp_path_factory):
    """Start the gateway of a route at the first call."""
    with ExitStack() as stack:
        backend = stack.enter_context(hostile_backend.running(HostileBackend({"hi": events()})))
        routes = [Route(name, "tiny", backend.url) for name in ("tiny", "insured", "pair", "pair")]
        config = make_config([*routes, Route("spare", "tiny", backend_of_session.url)])
        config["router_settings"]["model_group_alias"] = {"alias": "tiny"}
        config["router_settings"]["fallbacks"] = [{"insured": ["spare"]}]
        folder = tmp_path_factory.mktemp("hostile")
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))

        @cache
        def attacked(route):
            arguments, redis = ["--config", str(path)], spare_redis.url
            log = folder / route
            more = {"TOOLGATE_ROUTE": route, "TOOLGATE_KEEPALIVE_SECONDS": "100"}
            gateway = serving(arguments, backend.url, log, redis, always_ask, **more)
            return Attacked(stack.enter_context(gateway), backend, spare_redis)

        yield attacked


@pytest.fixture(params=["auto"])
def attacked(request, attacked_on):
    return attacked_on(request.param)


@pytest.fixture
async def victim(attacked, spare_backend):
    """The backend is honest before and after each test."""
    async with http_client(attacked.gateway.url, MASTER_KEY, timeout=60) as http:
        attacked.backend.attacks = {"hi": events()}
        await attacked.until(http, up=True)
        response = await http.post(CHAT, json=asked("hi"))
        assert response.status_code == 200, response.text
        yield http
        attacked.backend.routes.clear()
        attacked.backend.hangs = False


async def check(http, attacked, attack):
    """What a hostile backend sends is an error of its model alone. The gateway keeps its memory,
    and clients of other models their latency."""
    backend, pid = attacked.backend, attacked.gateway.process.pid
    assert pid is not None
    backend.attacks["attack"] = attack.send if attack.path == "generate" else events()
    if attack.path != "generate":
        backend.routes[attack.path] = attack.send
    path = f"{MESSAGES}/count_tokens" if attack.path == "count" else CHAT
    with heartbeat(attacked.gateway.url, pid) as found:
        response = await http.post(path, json=asked("attack", **attack.body))
    error = response.json()["error"]
    said = (response.status_code, error.get("code") or error["type"])
    assert said in attack.expected, response.text
    assert found.growth <= MORE_BYTES
    assert found.longest <= LONGEST_PAUSE


@pytest.mark.timed
@rotating("attack", ATTACKS, one_in=5, ids=lambda attack: attack.name)
async def test_what_a_hostile_backend_sends_is_an_error_of_its_model_alone(
    victim, attacked, attack
):
    await check(victim, attacked, attack)


COUNTS_NO_TOKENS = [each for each in ATTACKS if each.path != "count"]


@pytest.mark.timed
@pytest.mark.parametrize("attacked", ["litellm"], indirect=True)
@rotating("attack", COUNTS_NO_TOKENS, one_in=12, ids=lambda attack: attack.name)
async def test_it_is_the_same_error_on_litellms_route(victim, attacked, attack):
    await check(victim, attacked, attack)


async def test_the_usage_of_a_hostile_backend_does_not_change_a_budget(victim, attacked):
    key, _ = await make_key(
        attacked.redis.url, attacked.gateway.url, models=("tiny",), tokens_per_day=100_000
    )
    headers = bearer(key)

    attacked.backend.attacks["honest"] = streamed()  # as for every key with a limit on tokens

    async def left():
        response = await victim.post(CHAT, json=asked("honest", max_tokens=8), headers=headers)
        assert response.status_code == 200, response.text
        return int(response.headers["x-ratelimit-remaining-tokens-day"])

    before = await left()
    for wrong in ({"completion_tokens": -340_000}, {"prompt_tokens": -340_000}):
        attacked.backend.attacks["bad"] = streamed(usage(**wrong))
        response = await victim.post(CHAT, json=asked("bad", max_tokens=8), headers=headers)
        assert response.status_code == 502
    assert before - 200 < await left() < before


HUNG = {
    CHAT: {"messages": HI["messages"]},
    f"{CHAT}?": {"messages": HI["messages"], "stream": True},
    MESSAGES: {"messages": HI["messages"], "max_tokens": 9},
    f"{MESSAGES}/count_tokens": {"messages": HI["messages"]},
    RESPONSES: {"input": "hi"},
}


async def test_requests_for_a_hung_backend_end_at_once_until_it_responds_again(victim, attacked):
    """Health checks find it. A fallback replaces it."""
    attacked.backend.hangs = True
    await attacked.until(victim, up=False)
    for path, body in HUNG.items():
        for model in ("tiny", "alias", "pair"):
            began = time.monotonic()
            response = await victim.post(path, json={**body, "model": model}, timeout=PROMPT)
            assert response.status_code == 503, response.text
            assert int(response.headers["retry-after"]) > 0
            assert "No backend of this model responds" in response.json()["error"]["message"]
            assert time.monotonic() - began < PROMPT
    response = await victim.post(CHAT, json=HI | {"model": "insured"}, timeout=PROMPT)
    assert response.json()["choices"][0]["message"]["content"] == "Hello there"
    attacked.backend.hangs = False
    await attacked.until(victim, up=True)
    assert (await victim.post(CHAT, json=HI)).status_code == 200
