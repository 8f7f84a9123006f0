"""LiteLLM's own content filter as a guardrail of our models, on each API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call
from toolgate_proxy.server.launcher import Route, make_config

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
LOOK = {"name": "look", "parameters": SCHEMA}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": LOOK},
    "responses": {"type": "function", **LOOK},
    "messages": {"name": "look", "input_schema": SCHEMA},
}
APIS = pytest.mark.parametrize("api", list(PATHS))
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
TEXT = re.compile(r'"(?:content|text|delta|arguments|partial_json)": ?"((?:[^"\\]|\\.)*)"')


def said(response: httpx.Response) -> str:
    """The response's text, and after it what its events say, joined: a stream may cut a word."""
    return response.text + "".join(TEXT.findall(response.text))


def _filter(
    name: str, mode: str, *, default_on: bool = False, action: str = "BLOCK"
) -> dict[str, Any]:
    words = [{"keyword": f"{name}ed", "action": action}]
    params = {"guardrail": "litellm_content_filter", "mode": mode, "default_on": default_on}
    return {"guardrail_name": name, "litellm_params": params | {"blocked_words": words}}


@pytest.fixture(scope="module")
def url(
    backend_of_session: FakeBackend,
    spare_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guardrails")
    config = make_config([Route("tiny", "tiny"), Route("guarded", "tiny")])
    config["model_list"][1]["litellm_params"]["guardrails"] = ["request"]
    config["guardrails"] = [
        _filter("ask", "pre_call", default_on=True),
        _filter("answer", "post_call", default_on=True),
        _filter("request", "post_call"),
        _filter("mask", "post_call", action="MASK"),
    ]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    arguments = ["--config", str(path)]
    url, redis = backend_of_session.url, spare_redis.url
    with serving(arguments, url, folder / "log", redis) as gateway:
        yield gateway.url


@pytest.fixture(autouse=True)
def _scripts(spare_backend: FakeBackend) -> None:
    scripts = spare_backend.scripts
    scripts["hi"] = Script(("Hello there.",))
    scripts["bad"] = Script(("It was answered.",), pause=0.01)
    scripts["text"] = Script(("It was masked.",), pause=0.01)
    scripts["argument"] = Script((call("look", {"a": "masked"}),))
    scripts["named"] = Script(("It was requested.",), pause=0.01)
    scripts["call"] = Script((call("look", {"a": "answered"}),))


async def ask(url: str, api: str, content: str, **params: Any) -> httpx.Response:
    body: dict[str, Any] = {"model": "tiny", "tools": [TOOLS[api]], **params}
    body["input" if api == "responses" else "messages"] = [{"role": "user", "content": content}]
    if api == "messages":
        body["max_tokens"] = 100
    async with http_client(url, headers=bearer(MASTER_KEY), timeout=60) as http:
        return await http.post(PATHS[api], json=body)


@APIS
@STREAM
async def test_other_responses_pass(url: str, api: str, stream: bool) -> None:
    response = await ask(url, api, "hi", stream=stream)
    assert response.status_code == 200, response.text
    assert response.headers["x-toolgate-enforced"] == "full"
    assert "there" in said(response)


@APIS
@STREAM
async def test_blocked_request_does_not_reach_the_model(
    url: str, api: str, stream: bool, spare_backend: FakeBackend
) -> None:
    before = len(spare_backend.requests)
    response = await ask(url, api, "I asked", stream=stream)
    assert response.status_code in (400, 403), response.text
    assert len(spare_backend.requests) == before


@APIS
@STREAM
@pytest.mark.parametrize("content", ["bad", "call"])
async def test_blocked_response_is_not_sent(url: str, api: str, stream: bool, content: str) -> None:
    """Neither a text nor the arguments of a call."""
    response = await ask(url, api, content, stream=stream)
    assert response.status_code in (400, 403) or stream, response.text
    assert "error" in response.text
    assert '"answered"' not in said(response).replace("\\", "").replace("'answered'", "")
    assert "It was answered" not in said(response)


@APIS
@STREAM
async def test_request_names_a_guardrail(url: str, api: str, stream: bool) -> None:
    assert (await ask(url, api, "named", stream=stream)).status_code == 200
    named = await ask(url, api, "named", stream=stream, guardrails=["request"])
    assert named.status_code in (400, 403) or stream, named.text
    assert "error" in named.text
    assert "It was requested" not in said(named)


@APIS
@STREAM
async def test_model_names_a_guardrail(url: str, api: str, stream: bool) -> None:
    named = await ask(url, api, "named", model="guarded", stream=stream)
    assert named.status_code in (400, 403) or stream, named.text
    assert "error" in named.text
    assert "It was requested" not in said(named)
    assert (await ask(url, api, "hi", model="guarded", stream=stream)).status_code == 200


@STREAM
@pytest.mark.parametrize(
    ("api", "content"),
    [*((api, "text") for api in PATHS), ("chat", "argument"), ("responses", "argument")],
)
async def test_masked_words_are_not_sent(url: str, api: str, stream: bool, content: str) -> None:
    """A stream in which the guardrail can't mask them is refused. LiteLLM itself masks no arguments
    of Messages."""
    response = await ask(url, api, content, stream=stream, guardrails=["mask"])
    assert "masked" not in said(response)
    if not stream:
        assert response.status_code == 200, response.text
        assert "REDACTED" in response.text
    elif (api, content) != ("chat", "text"):
        assert "error" in response.text
