"""Fallbacks to another provider, whose calls are not enforced, and tags of deployments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import yaml

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.fake_provider import FakeProvider, running
from tests.support.servers.gateway_process import serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.stack.processes import free_port

LOOK = {"name": "look", "parameters": {"type": "object"}}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": LOOK},
    "responses": {"type": "function", **LOOK},
    "messages": {"name": "look", "input_schema": {"type": "object"}},
}
APIS = pytest.mark.parametrize("api", list(PATHS))
ERROR = {"message": "It broke.", "type": "server_error", "code": "backend_failed"}


@dataclass(frozen=True)
class Fleet:
    url: str
    redis: str


@pytest.fixture(scope="module")
def fleet(
    backend_of_session: FakeBackend,
    spare_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fallbacks")
    down = f"http://127.0.0.1:{free_port()}"
    names = [Route("tiny", "tiny"), Route("down", "tiny", down), Route("tagged", "tiny")]
    config = make_config([*names, Route("to-down", "tiny", down)])
    by_name = {row["model_name"]: row["litellm_params"] for row in config["model_list"]}
    by_name["tagged"]["tags"] = ["gold"]
    with running(FakeProvider()) as provider:
        hosted = {"model": "openai/gpt-x", "api_base": provider.url, "api_key": "k"}
        config["model_list"].append({"model_name": "hosted", "litellm_params": hosted})
        config["router_settings"] |= {
            "fallbacks": [{"down": ["hosted"]}, {"tiny": ["hosted"]}, {"to-down": ["tiny"]}],
            "enable_tag_filtering": True,
        }
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        redis = spare_redis.url
        arguments = ["--config", str(path)]
        with serving(arguments, backend_of_session.url, folder / "log", redis) as gateway:
            yield Fleet(gateway.url, redis)


@pytest.fixture(autouse=True)
def _scripts(spare_backend: FakeBackend) -> None:
    spare_backend.scripts["hi"] = Script(("Hello there",))
    spare_backend.scripts["breaks"] = Script(("x",), error_status=500, error=ERROR)


async def ask(
    fleet: Fleet,
    model: str,
    content: str = "hi",
    *,
    api: str = "chat",
    stream: bool = False,
    **terms: Any,
) -> httpx.Response:
    sent, _ = await make_key(fleet.redis, fleet.url, **terms)
    body: dict[str, Any] = {"model": model, "tools": [TOOLS[api]], "stream": stream}
    body["input" if api == "responses" else "messages"] = [{"role": "user", "content": content}]
    if api == "messages":
        body["max_tokens"] = 100
    async with http_client(fleet.url, headers=bearer(sent), timeout=60) as http:
        return await http.post(PATHS[api], json=body)


@APIS
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "content"), [("down", "hi"), ("tiny", "breaks")])
async def test_an_answer_of_a_fallback_says_that_nothing_is_enforced(
    fleet: Fleet, api: str, model: str, content: str, stream: bool
) -> None:
    """Also if the backend had accepted the request, and had its grammars."""
    response = await ask(fleet, model, content, api=api, stream=stream, tpm=100_000)
    assert response.status_code == 200, response.text
    assert "word" in response.text
    assert response.headers["x-toolgate-fallback"] == "not-enforced"
    assert response.headers["x-toolgate-enforced"] == "none"
    assert response.headers.get_list("x-litellm-model-group") == ["hosted"]
    assert response.headers.get_list("x-litellm-attempted-fallbacks") == ["1"]
    assert "x-toolgate-grammar" not in response.headers


@APIS
async def test_a_fallback_needs_no_permission_of_the_key(fleet: Fleet, api: str) -> None:
    """As in LiteLLM, unless `enforce_fallback_model_access` is configured."""
    for model in ("down", "to-down"):
        response = await ask(fleet, model, api=api, models=(model,))
        assert response.status_code == 200, response.text


@APIS
async def test_answers_of_backends_are_no_fallbacks(fleet: Fleet, api: str) -> None:
    for model in ("tiny", "to-down"):
        response = await ask(fleet, model, api=api)
        assert response.status_code == 200
        assert response.headers["x-toolgate-enforced"] == "full"
        assert "x-toolgate-fallback" not in response.headers
    hosted = await ask(fleet, "hosted")
    assert hosted.status_code == 200
    assert "x-toolgate-fallback" not in hosted.headers


@APIS
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "content", "status", "code"),
    [("down", "hi", 503, "backend_unavailable"), ("tiny", "breaks", 502, "backend_failed")],
)
async def test_a_key_can_refuse_such_a_fallback(
    fleet: Fleet, api: str, model: str, content: str, status: int, code: str, stream: bool
) -> None:
    """The error is that of the backend."""
    response = await ask(fleet, model, content, api=api, stream=stream, enforced_only=True)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "x-toolgate-fallback" not in response.headers
    assert "word" not in response.text


async def test_such_a_key_may_use_models_with_enforced_calls_only(fleet: Fleet) -> None:
    for model in ("tiny", "to-down"):
        assert (await ask(fleet, model, enforced_only=True)).status_code == 200
    response = await ask(fleet, "hosted", enforced_only=True)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "permission_denied")
    assert "--any-model" in response.text


@pytest.mark.parametrize("stream", [False, True])
async def test_tags_that_match_no_deployment_are_not_an_invalid_key(
    fleet: Fleet, stream: bool
) -> None:
    assert (await ask(fleet, "tagged", tags=("gold",), stream=stream)).status_code == 200
    response = await ask(fleet, "tagged", tags=("lead",), stream=stream)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (403, "permission_denied")
    assert "tags" in error["message"]
    assert "lead" not in error["message"]
