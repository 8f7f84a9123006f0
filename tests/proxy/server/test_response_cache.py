"""LiteLLM's response cache on the gateway's own route, on each API."""

import asyncio

import litellm
import pytest
from litellm.caching.caching import Cache, CacheMode
from litellm.integrations.custom_logger import CustomLogger

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, STREAM, function
from tests.support.apis.outcomes import RANDOM
from tests.support.effort import rotating
from tests.support.litellm.guards import SCHEMA, TOOLS, use_callback
from tests.support.litellm.own_route import PATHS, body_of, ours
from tests.support.litellm.router import use
from tests.support.schemas.residual_calls import BAD, GOOD, TAGS, UNIQUE
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy import background
from toolgate_proxy.server.request_scope import own_headers

OTHER_SCHEMA = {**SCHEMA, "description": "Another one."}


@pytest.fixture
def cache(gateway, monkeypatch):
    gateway.configure(keepalive_seconds=0)
    gateway.backend.scripts["call"] = Script((call("look", {"a": "ZZZZ"}),))
    made = Cache(type="local")
    monkeypatch.setattr(litellm, "cache", made)
    return made


async def ask(gateway, api="chat", **params):
    key = params.pop("key", None)
    body = body_of(api, params.pop("content", "call"), **{"tools": TOOLS[api], **params})
    more = {} if key is None else {"key": key}
    response = await gateway.ask(body, path=PATHS[api], **more)
    await until(lambda: not background._tasks)  # which keep the answer
    return response


def shown(response):
    content = b"".join(response.bodies).decode()
    return RANDOM.sub("-", content.replace("toolu_", "call_"))


def generations(gateway):
    return len(gateway.backend.requests)


@APIS
@STREAM
async def test_same_request_gets_the_same_answer_without_the_backend(gateway, cache, api, stream):
    first = await ask(gateway, api, stream=stream)
    again = await ask(gateway, api, stream=stream)
    assert (again.status, generations(gateway)) == (200, 1)
    assert kit.read(api, again).named == [("look", {"a": "ZZZZ"})]
    if not stream:
        assert shown(again) == shown(first)
        assert again.json["id"] != first.json["id"]
    assert "x-litellm-cache-key" not in own_headers(first.context)
    assert own_headers(again.context)["x-litellm-cache-key"]
    assert own_headers(again.context)["x-toolgate-enforced"] == "full"
    assert first.context.meter.completion_tokens > 0
    assert (again.context.meter.prompt_tokens, again.context.meter.completion_tokens) == (0, 0)
    assert not gateway.host.passed


@rotating("api", PATHS, one_in=3)
async def test_streamed_and_whole_responses_share_answers(gateway, cache, api):
    for content, order in (("call", (True, False)), ("hi", (False, True))):
        before = generations(gateway)
        for stream in order:
            response = await ask(gateway, api, content=content, stream=stream)
            assert (response.status, generations(gateway)) == (200, before + 1)
            reply = kit.read(api, response)
            assert reply.named == [("look", {"a": "ZZZZ"})] * (content == "call")
            assert reply.text == "Hello there" * (content == "hi")


@rotating("api", PATHS, one_in=3)
async def test_answers_to_requests_that_differ_are_not_shared(gateway, cache, api):
    other, see = function(api, "look", OTHER_SCHEMA), function(api, "see", OTHER_SCHEMA)
    different = [{}, {"tools": [other]}, {"tools": [*TOOLS[api], see]}, {"content": "hi"}]
    different += [{"temperature": 0.5}, {"seed": 7}, {"min_p": 0.25}]
    for number, params in enumerate(different, 1):
        assert (await ask(gateway, api, **params)).status == 200
        assert generations(gateway) == number
    for params in different:
        await ask(gateway, api, **params)
    assert generations(gateway) == len(different)


async def test_teams_and_keys_share_no_answers(gateway, cache):
    for name, team in (("sk-1", "a"), ("sk-2", "b"), ("sk-3", None), ("sk-4", None), ("sk-5", "a")):
        gateway.add_key(name, key_of(name, team=team))
        await ask(gateway, key=name)
    assert generations(gateway) == 4


async def test_kept_answers_are_sealed(gateway, cache):
    await ask(gateway)
    [(name, kept)] = cache.cache.cache_dict.items()
    assert "ZZZZ" not in str(kept)
    assert "look" not in str(kept)
    sealed = kept["response"]["toolgate"]
    for broken in (sealed[:-8], sealed[:40] + "AAAA" + sealed[44:], "no base64", 3):
        kept["response"]["toolgate"] = broken
        response = await ask(gateway, cache={"no-store": True})
        assert (response.status, "ZZZZ" in shown(response)) == (200, True)
    assert generations(gateway) == 5
    assert name.startswith("toolgate:")


async def test_request_controls_the_cache(gateway, cache):
    await ask(gateway, cache={"no-store": True})
    await ask(gateway, cache={"no-cache": True})
    assert generations(gateway) == 2
    await ask(gateway, cache={"s-maxage": 600})
    assert generations(gateway) == 2
    await asyncio.sleep(0.02)
    await ask(gateway, cache={"s-maxage": 0.01, "no-store": True})
    assert generations(gateway) == 3
    await ask(gateway, cache={"namespace": "mine"})
    await ask(gateway, cache={"namespace": "mine"})
    assert generations(gateway) == 4
    await ask(gateway, caching=True, cache={"namespace": "mine"})
    assert generations(gateway) == 4
    await ask(gateway, caching=False, cache={"namespace": "mine"})
    assert generations(gateway) == 5


async def test_cache_may_be_off_unless_a_request_asks_for_it(gateway, cache):
    cache.mode = CacheMode.default_off
    for number, controls in enumerate(({}, {}, {"use-cache": True}), 1):
        await ask(gateway, cache=controls)
        assert generations(gateway) == number
    await ask(gateway, cache={"use-cache": True})
    assert generations(gateway) == 3


async def test_only_operations_of_the_configuration_are_kept(gateway, cache):
    kept = {"chat": "acompletion", "responses": "responses", "messages": "anthropic_messages"}
    for seed, (name, kind) in enumerate({**kept, "none": "aembedding"}.items()):
        cache.supported_call_types = [kind]
        for api in PATHS:
            gateway.backend.requests.clear()
            for _ in range(2):
                await ask(gateway, api, seed=seed)
            assert generations(gateway) == (1 if api == name else 2)


@STREAM
async def test_failed_and_abandoned_answers_are_not_kept(gateway, cache, stream):
    gateway.backend.scripts["breaks"] = Script(("Hello there",), error_after=2, pause=0.01)
    for number in (1, 2):
        await ask(gateway, content="breaks", stream=stream)
        assert generations(gateway) == number
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    for number in (3, 4):
        leave = asyncio.Event()
        body = body_of("chat", "hang", stream=stream)
        asking = asyncio.create_task(gateway.ask(body, leave_after=leave))
        await until(lambda number=number: generations(gateway) == number)
        leave.set()
        await asking


async def test_only_answers_whose_calls_were_valid_at_once_are_kept(gateway, cache):
    """A kept one is validated again."""
    gateway.backend.residual["set_tags"] = (UNIQUE,)
    gateway.backend.scripts |= {"bad": Script((BAD,), again=(GOOD,) * 3), "good": Script((GOOD,))}
    for content, expected in (("bad", 2), ("bad", 4), ("good", 5), ("good", 5)):
        response = await ask(gateway, content=content, tools=[TAGS])
        assert (response.status, generations(gateway)) == (200, expected)
        assert own_headers(response.context)["x-toolgate-enforced"] == "residual"


async def test_answer_of_a_backend_that_failed_is_not_kept(gateway, cache, monkeypatch):
    """Only that of the fallback is."""
    other = ours(gateway.backend, "other")
    other["model_info"]["id"] = "other"
    use(monkeypatch, ours(gateway.backend), other, fallbacks=[{"tiny": ["other"]}])
    gateway.backend.turns[:] = [
        Script(("Hello",), error_after=1),
        Script(("From the other",)),
        Script(("Hello there",)),
    ]
    texts = [(await ask(gateway, content="who", tools=None)).text for _ in range(2)]
    assert texts == ["From the other", "From the other"]


@STREAM
async def test_log_event_of_a_kept_answer(gateway, cache, monkeypatch, stream):
    logged = []

    class Observer(CustomLogger):
        async def async_log_success_event(self, kwargs, response_obj, **_):
            logged.append((bool(kwargs["cache_hit"]), response_obj.choices[0].message.content))

    use_callback(monkeypatch, Observer())
    for number in (1, 2):
        await ask(gateway, content="hi", stream=stream, tools=None)
        await until(lambda number=number: len(logged) == number)
    assert logged == [(False, "Hello there"), (True, "Hello there")]


async def test_unavailable_cache_does_not_fail_requests(gateway, cache, monkeypatch):
    async def broken(*args, **more):
        raise ConnectionError("No Redis.")

    monkeypatch.setattr(cache.cache, "async_get_cache", broken)
    monkeypatch.setattr(cache.cache, "async_set_cache", broken)
    for number in (1, 2):
        assert (await ask(gateway)).status == 200
        assert generations(gateway) == number
