"""Gateways in front of three backends of one model: the same prefix goes to the same backend.

If a backend is lost, the others serve."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from importlib.metadata import version

import httpx
import openai
import pytest
import yaml
from packaging.version import Version
from typer.testing import CliRunner

from tests.proxy.process.kit import CHAT, MESSAGES
from tests.support.effort import sampled
from tests.support.servers.backends import backends_of
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.ops.cli import app
from toolgate_proxy.routing.prefix_affinity import MIN_CAPACITY
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.settings import settings

STREAMS = 32
TEXT = "Hello there, friend " * 10
LONG = "You are a careful assistant. " * 60
MANY = 48
"""So many keys are on two of the three backends only in one of ten million runs."""
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
SAID = ("hi", "And you?", "Who else?")
STRATEGIES = ("simple-shuffle", "least-busy", "usage-based-routing-v2", "limited")


@pytest.fixture(scope="module")
def backends():
    missing = {"message": "No.", "code": "model_not_found"}
    scripts = {turn: Script((TEXT,)) for turn in SAID} | {
        "waits": Script((TEXT,), hang_after=1),
        "slow": Script((TEXT,), pause=0.05),
        "silent": Script((TEXT,), hang_after=0),
        "missing": Script(("",), error_status=404, error=missing),
    }
    with backends_of(3, scripts) as made:
        yield made


@pytest.fixture(scope="module")
def urls(backends, tmp_path_factory):
    """Of a gateway on our own route, which also has a model for each of LiteLLM's strategies, and
    of one on LiteLLM's."""
    routes = [Route("tiny", "tiny", backend.url) for backend in backends.all]
    routes += [Route(name, "tiny", each.url) for name in STRATEGIES for each in backends.all[:2]]
    port = backends.all[0].url.rpartition(":")[2]
    routes.append(Route("named", "tiny", f"dns+http://localhost:{port}"))
    config = make_config(routes)
    groups = config["router_settings"]["routing_groups"] = []
    for name in STRATEGIES:
        strategy = "usage-based-routing-v2" if name == "limited" else name
        groups.append(
            {"group_name": f"{name} ones", "models": [name], "routing_strategy": strategy}
        )
    limited, _ = [row for row in config["model_list"] if row["model_name"] == "limited"]
    limited["litellm_params"]["rpm"] = 4
    folder, url = tmp_path_factory.mktemp("routing"), backends.all[0].url
    (path := folder / "config.yaml").write_text(yaml.safe_dump(config))
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                serving(["--config", str(path)], url, folder / way, TOOLGATE_ROUTE=way)
            ).url
            for way in ("auto", "litellm")
        ]


@pytest.fixture
async def gateways(urls, backends):
    async with AsyncExitStack() as stack:
        clients = [http_client(url, MASTER_KEY, timeout=60) for url in urls]
        made = [await stack.enter_async_context(client) for client in clients]
        for http in made:
            await until_up(http, True, True, True)
        yield made


@pytest.fixture
def http(gateways):
    """The gateway on our own route."""
    return gateways[0]


async def states(http):
    models = (await http.get("/toolgate/status")).json()["models"]
    (tiny,) = (each for each in models if each["model"] == "tiny")
    return [backend["up"] for backend in tiny["backends"]]


async def until_up(http, *wanted):
    await until(lambda: states(http), 60, [*wanted].__eq__)


def asked(*said, system=LONG, **params):
    roles = ("user", "assistant")
    turns = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    return {"model": "tiny", "messages": [{"role": "system", "content": system}, *turns], **params}


async def sent(http, backends, body, route=CHAT):
    """Which backend answered it."""
    with backends.counted() as used:
        response = await http.post(route, json=body)
    assert response.status_code == 200, response.text
    assert sum(used) == 1
    return used.index(1)


async def test_same_prefix_goes_to_one_backend(gateways, backends):
    """Turn after turn, streamed or not, by either gateway."""
    places = set()
    for tools in ([], [TOOL]):
        at = {
            await sent(http, backends, body | {"tools": tools})
            for http in gateways
            for body in (
                asked("hi"),
                asked("hi", TEXT, "And you?"),
                asked("hi", TEXT, "And you?", TEXT, "Who else?", stream=True),
                asked("And you?"),
                asked("Who else?", tool_choice="none", temperature=0.5),
            )
        }
        assert len(at) == 1
        places |= at
    heads = [asked("hi", system=f"{number} {LONG}") for number in range(MANY)]
    places |= {await sent(gateways[0], backends, body) for body in heads}
    assert places == {0, 1, 2}


@pytest.mark.parametrize("route", ["/v1/responses", CHAT])
async def test_same_cache_key_goes_to_one_backend(gateways, backends, route):
    """Whatever the prompt is, by either gateway, while the backend has capacity."""

    def with_key(number, at):
        key = f"conversation {number}"
        if route == CHAT:
            system = LONG if at == 2 else "Be brief."
            return asked(SAID[at], system=f"{at} {system}", prompt_cache_key=key)
        return {"model": "tiny", "input": SAID[at], "store": False, "prompt_cache_key": key}

    homes = []
    for number in range(12):
        first, *later = [
            await sent(
                gateways[at % 2 if route == CHAT else 0], backends, with_key(number, at), route
            )
            for at in range(3)
        ]
        assert later == [first, first]
        homes.append(first)
    others = [with_key(number, 0) for number in range(12, MANY)]
    homes += [await sent(gateways[0], backends, body, route) for body in others]
    assert set(homes) == {0, 1, 2}
    waits = {"model": "tiny", "stream": True, "prompt_cache_key": "conversation 0"}
    waits |= asked("waits", system="") if route == CHAT else {"input": "waits"}
    waiting = [
        asyncio.create_task(gateways[0].post(route, json=waits)) for _ in range(int(MIN_CAPACITY))
    ]
    await backends.under_way(len(waiting))
    assert backends.all[homes[0]].running == len(waiting)
    assert await sent(gateways[0], backends, with_key(0, 0), route) != homes[0]
    for each in waiting:
        each.cancel()
    await backends.under_way(0)
    assert await sent(gateways[0], backends, with_key(0, 0), route) == homes[0]


async def test_a_name_is_resolved_to_its_addresses(gateways, backends):
    """By the system's resolver."""
    for http in gateways:
        body = asked("hi", system="") | {"model": "named"}
        assert await sent(http, backends, body) == 0
        models = (await http.get("/toolgate/status")).json()["models"]
        [named] = [each for each in models if each["model"] == "named"]
        assert [each["url"] for each in named["backends"]] == [
            backends.all[0].url.replace("http://127.0.0.1", "dns+http://localhost") + "#127.0.0.1"
        ]
        assert named["backends"][0]["up"]


async def streamed(client, script):
    """The text, and how the stream ended: its finish reason, or the error's code."""
    text, ended = "", None
    try:
        stream = await client.chat.completions.create(**asked(script, system=""), stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                ended = choice.finish_reason or ended
    except openai.APIError as error:
        return text, error.code
    return text, ended


async def statuses(http, number):
    body = asked("hi", system="")
    said = await asyncio.gather(*(http.post(CHAT, json=body) for _ in range(number)))
    return {response.status_code for response in said}


async def test_backend_killed_under_load_is_replaced_and_comes_back(http, urls, backends):
    """Streams at the others go on to their end, those at this one end with an error, what had not
    begun moves, nobody hangs; and the backend is used again when it is back."""
    home = await sent(http, backends, asked("hi"))
    async with openai_client(urls[0], MASTER_KEY, timeout=120) as client:
        began = backends.counts
        streams = [asyncio.create_task(streamed(client, "slow")) for _ in range(STREAMS)]
        await until(lambda: sum(backends.counts) - sum(began) == STREAMS, 60)
        await asyncio.sleep(0.5)
        at_first = backends.counts[home] - began[home]
        backends.kill(home)
        counts = [http.post(f"{MESSAGES}/count_tokens", json=asked("hi")) for _ in range(8)]
        later = [asyncio.create_task(streamed(client, "hi")) for _ in range(STREAMS)]
        assert {answer.status_code for answer in await asyncio.gather(*counts)} == {200}
        async with asyncio.timeout(120):
            ended, moved = await asyncio.gather(*streams), await asyncio.gather(*later)
    assert set(moved) == {(TEXT, "stop")}
    whole = [each for each in ended if each == (TEXT, "stop")]
    broken = [each for each in ended if each[1] == "backend_failed"]
    assert len(whole) + len(broken) == STREAMS
    assert 0 < len(broken) <= at_first
    assert len(whole) >= STREAMS - at_first
    assert all(TEXT.startswith(text) and text for text, _ in broken)
    await until_up(http, *(at != home for at in range(3)))
    with backends.counted() as used:
        assert await statuses(http, 20) == {200}
        places = {await sent(http, backends, asked("hi")) for _ in range(4)}
    assert used[home] == 0
    assert len(places) == 1, "one other backend has its prefixes meanwhile"
    backends.start(home)
    await until_up(http, True, True, True)
    assert await sent(http, backends, asked("hi")) == home


@pytest.mark.parametrize("at", [0, 1], ids=["own route", "LiteLLM's"])
@pytest.mark.parametrize("stream", [False, True])
async def test_request_without_output_fails_over(gateways, backends, stream, at):
    """The backend took it and dies before the first token: the client never learns of it."""
    for backend in backends.all:
        backend.scripts["turn"] = backend.scripts["silent"]
    began = backends.counts
    body = asked("turn", stream=stream)
    asking = asyncio.create_task(gateways[at].post(CHAT, json=body))
    await until(lambda: sum(backends.counts) > sum(began), 60)
    taken = next(at for at in range(3) if backends.counts[at] > began[at])
    for backend in backends.all:
        backend.scripts["turn"] = backend.scripts["hi"]
    await asyncio.sleep(0.2)
    backends.kill(taken)
    response = await asking
    backends.start(taken)
    assert response.status_code == 200, response.text
    assert "Hello" in response.text
    assert sum(backends.counts) == sum(began) + 2


async def test_404_of_one_request_leaves_the_backend_up(http, backends):
    for _ in range(6):
        assert (await http.post(CHAT, json=asked("missing"))).status_code in (400, 404)
        assert await statuses(http, 2) == {200}
    assert await states(http) == [True] * 3


@pytest.mark.parametrize("at", [0, 1], ids=["own route", "LiteLLM's"])
async def test_every_strategy_serves_a_burst_with_one_prefix(gateways, backends, at):
    """One long prefix, many at once: neither its preference nor the limit of one deployment's
    keeps a request from another. On LiteLLM's route, its router from 1.110 on refuses requests of
    a burst that it has chosen a full deployment for."""
    http = gateways[at]
    for model in STRATEGIES:
        refuses = model == "limited" and at == 1 and Version(version("litellm")) >= Version("1.110")
        body = asked("hi") | {"model": model}
        with backends.counted() as used:
            said = await asyncio.gather(*(http.post(CHAT, json=body) for _ in range(12)))
            served = [response.status_code for response in said].count(200)
            assert {response.status_code for response in said} <= {200, *([429] * refuses)}
            for _ in range(4):
                response = await http.post(CHAT, json=body)
                assert response.status_code == 200, response.text
        assert sum(used) == served + 4


@sampled("script, stream", ["waits", "silent"], [False, True], one_in=2)
async def test_least_busy_does_not_count_a_request_that_its_client_left(
    http, backends, script, stream
):
    """Prompts too short to prefer any."""
    body = asked(script, system="", stream=stream) | {"model": "least-busy"}
    first = []
    with backends.counted() as used:
        for number in range(6):
            first.append(asyncio.create_task(http.post(CHAT, json=body)))
            await backends.under_way(number + 1)
    assert used == [3, 3, 0]
    first.pop().cancel()
    await backends.under_way(5)
    await asyncio.sleep(0.2)  # until the gateway knows
    with backends.counted() as used:
        for _ in range(4):
            asking = asyncio.create_task(http.post(CHAT, json=body))
            await backends.under_way(6)
            asking.cancel()
            await backends.under_way(5)
            await asyncio.sleep(0.2)
    assert sorted(used) == [0, 0, 4]
    for each in first:
        each.cancel()
    await backends.under_way(0)


@pytest.mark.parametrize("route", [CHAT, MESSAGES])
async def test_tags_limits_and_fallbacks_choose_the_backend(backends, tmp_path, route):
    """By LiteLLM's router, which these gateways have without the members that LiteLLM is about to
    delete (forked_gateways)."""
    first, second, third = (each.url for each in backends.all)
    routes = [Route("tagged", "tiny", url) for url in (first, second)]
    config = make_config([*routes, Route("full", "tiny", first), Route("spare", "tiny", third)])
    for row, tag in zip(config["model_list"], ("gold", "lead", "full", "spare"), strict=True):
        row["litellm_params"]["tags"] = [tag, "any"]
    config["model_list"][2]["litellm_params"]["rpm"] = 1
    settings_ = {"enable_tag_filtering": True, "fallbacks": [{"full": ["spare"]}]}
    config["router_settings"] |= settings_ | {"routing_strategy": "usage-based-routing-v2"}
    (path := tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    body = asked("hi", system="", tags=["lead"], max_tokens=64) | {"model": "tagged"}
    with serving(["--config", str(path)], first, tmp_path / "log") as gateway:
        async with http_client(gateway.url, MASTER_KEY, timeout=60) as http:
            assert [await sent(http, backends, body, route) for _ in range(4)] == [1] * 4
            body |= {"model": "full", "tags": ["any"]}
            assert [await sent(http, backends, body, route) for _ in range(3)] == [0, 2, 2]
            refused = await http.post(route, json={**body, "tags": ["none"]})
            assert refused.status_code == 403, refused.text


def test_status_command_shows_the_backends(urls, backends, monkeypatch):
    def toolgate(key):
        monkeypatch.setenv("TOOLGATE_MASTER_KEY", key)
        settings.cache_clear()
        return CliRunner().invoke(app, ["status", "--url", urls[0]])

    shown, refused = toolgate(MASTER_KEY), toolgate("sk-wrong")
    assert shown.exit_code == 0, shown.output
    for backend in backends.all:
        assert backend.url.removeprefix("http://") in shown.output
    metrics = httpx.get(
        f"{urls[0]}/toolgate/metrics", headers=bearer(MASTER_KEY), trust_env=False
    ).text
    for label in ("preferred", "other"):
        assert f'toolgate_prefix_affinity_total{{sent="{label}"}}' in metrics
    assert (refused.exit_code, refused.stdout) == (2, "")
