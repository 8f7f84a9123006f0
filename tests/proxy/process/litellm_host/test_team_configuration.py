"""LiteLLM's configuration on both routes: hooks, events, defaults, aliases, limits and origins."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.litellm import recorder
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import BROWSER_ORIGIN, MASTER_KEY, serving
from tests.support.servers.http_client import http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.server.launcher import Route, make_config

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Configured:
    url: str
    way: str
    records: Path
    log: Path

    def events(self) -> list[dict[str, Any]]:
        """What the callback was told."""
        if not self.records.exists():
            return []
        return [json.loads(line) for line in self.records.read_text().splitlines()]


@pytest.fixture
def backend(spare_backend: FakeBackend) -> FakeBackend:
    return spare_backend


@pytest.fixture(scope="module")
def configured(
    route: str,
    backend_of_session: FakeBackend,
    spare_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Configured]:
    folder = tmp_path_factory.mktemp(f"team-{route}")
    shutil.copy(Path(recorder.__file__), folder)
    config = make_config([Route(name, "tiny") for name in ("tiny", "defaults", "limited")])
    by_name = {row["model_name"]: row["litellm_params"] for row in config["model_list"]}
    by_name["defaults"] |= {"temperature": 0.125, "max_tokens": 7, "tags": ["team-a"]}
    by_name["defaults"]["extra_body"] = {"top_k": 3}
    by_name["limited"]["rpm"] = 2
    config["litellm_settings"]["callbacks"] = ["recorder.recorder"]
    config["router_settings"]["model_group_alias"] = {"short": "tiny"}
    config["router_settings"]["optional_pre_call_checks"] = ["enforce_model_rate_limits"]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    records, log = folder / "records", folder / "log"
    arguments = ["--config", str(path)]
    more = {
        "RECORDED": str(records),
        "TOOLGATE_ROUTE": "litellm" if route == "litellm" else "auto",
    }
    redis = spare_redis.url
    with serving(arguments, backend_of_session.url, log, redis, **more) as gateway:
        yield Configured(gateway.url, route, records, log)


@pytest.fixture
async def team(configured: Configured) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {MASTER_KEY}"}
    async with http_client(configured.url, headers=headers, timeout=30) as http:
        yield http


@pytest.fixture(autouse=True)
def _scripts(backend: FakeBackend) -> None:
    backend.scripts["hi"] = Script(("Hello there",))
    error = {"message": "It broke.", "code": "backend_failed"}
    backend.scripts["breaks"] = Script(("x",), error_status=500, error=error)
    backend.scripts["breaks midway"] = Script(("Hello there you",), error_after=3)


def asked(content: str = "hi", model: str = "tiny", **params: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": content}], **params}


async def told(
    configured: Configured, event: str, number: int = 1, error: str | None = None
) -> list[dict[str, Any]]:
    """The events of a kind, and with an error if one is named, once there are so many."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        while len(found) < number:
            await asyncio.sleep(0.05)
            events = [each for each in configured.events() if each["event"] == event]
            found = [each for each in events if error in (None, each.get("error"))]
    return found


@pytest.fixture(autouse=True)
def _fresh(configured: Configured) -> None:
    configured.records.unlink(missing_ok=True)


@pytest.mark.parametrize("stream", [False, True])
async def test_one_success_event_a_request(
    configured: Configured, team: httpx.AsyncClient, spare_redis: RedisServer, stream: bool
) -> None:
    alias = f"events-{configured.way}-{stream}"
    key, _ = await make_key(
        spare_redis.url, configured.url, alias=alias, team="web", tags=("t1",), rpm=100
    )
    body = asked(stream=stream, temperature=0.5, user="u1")
    response = await team.post(CHAT, json=body, headers={"Authorization": f"Bearer {key}"})
    assert response.status_code == 200
    (event,) = await told(configured, "success")
    await asyncio.sleep(0.3)
    assert [e["event"] for e in configured.events()].count("success") == 1
    payload = event["payload"]
    expected = {
        "call_type": "acompletion",
        "model": "toolgate/tiny",
        "model_group": "tiny",
        "custom_llm_provider": "toolgate",
        "status": "success",
        "prompt_tokens": 11,
        "completion_tokens": 5,
        "end_user": "u1",
    }
    assert {name: payload[name] for name in expected} == expected
    assert payload["metadata"]["user_api_key_alias"] == alias
    assert payload["metadata"]["user_api_key_request_route"] == CHAT
    assert "t1" in payload["request_tags"]
    assert payload["model_id"]
    assert payload["api_base"].startswith("http://127.0.0.1:")
    assert payload["endTime"] >= payload["completionStartTime"] >= payload["startTime"]
    assert payload["model_parameters"]["temperature"] == 0.5
    assert event["deployment"] == "toolgate/tiny"
    assert event["response"]["choices"][0]["message"]["content"] == "Hello there"
    assert payload["messages"] == body["messages"]


async def test_a_hook_before_the_call_changes_the_request(
    configured: Configured, team: httpx.AsyncClient, backend: FakeBackend
) -> None:
    response = await team.post(CHAT, json=asked("changed by a hook"))
    assert response.json()["choices"][0]["message"]["content"] == "Hello there"
    assert backend.requests[-1].sampling.temperature == 0.25
    (event,) = await told(configured, "success")
    assert event["messages"][-1]["content"] == "hi"


async def test_a_hook_before_the_call_refuses_the_request(
    configured: Configured, team: httpx.AsyncClient, backend: FakeBackend
) -> None:
    before = len(backend.requests)
    response = await team.post(CHAT, json=asked("refused by a hook"))
    assert response.status_code == 403
    assert response.json()["error"]["message"] == "Not on Mondays."
    assert len(backend.requests) == before
    (event,) = await told(configured, "failure")
    assert event["error"] == "HTTPException"
    await told(configured, "failure_hook")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (asked(n=0), 400, "BadRequestError"),
        (asked("breaks"), 502, "BadGatewayError"),
        (asked("breaks midway", stream=True), 200, "InternalServerError"),
    ],
)
async def test_one_failure_event_a_request(
    configured: Configured,
    team: httpx.AsyncClient,
    body: dict[str, Any],
    status: int,
    error: str,
) -> None:
    response = await team.post(CHAT, json=body)
    assert response.status_code == status
    (event,) = await told(configured, "failure")
    assert event["error"] == error
    assert event["payload"]["status"] == "failure"
    assert event["payload"]["model_group"] == "tiny"
    hooks = await told(configured, "failure_hook")
    assert [hook["error"] for hook in hooks] == [error]


@pytest.mark.parametrize(
    "field", ["rules_obj", "original_function", "litellm_logging_obj", "api_base", "secret_fields"]
)
async def test_control_fields_are_refused_beside_hooks(
    configured: Configured, team: httpx.AsyncClient, backend: FakeBackend, field: str
) -> None:
    before = len(backend.requests)
    response = await team.post(CHAT, json=asked(**{field: "x"}))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == field
    assert len(backend.requests) == before


async def test_failure_events_have_litellms_error_class(
    configured: Configured, team: httpx.AsyncClient, spare_redis: RedisServer
) -> None:
    key, _ = await make_key(spare_redis.url, configured.url, alias=f"few-{configured.way}", rpm=1)
    headers = {"Authorization": f"Bearer {key}"}
    assert (await team.post(CHAT, json=asked(), headers=headers)).status_code == 200
    assert (await team.post(CHAT, json=asked(), headers=headers)).status_code == 429
    await told(configured, "failure_hook", error="RateLimitError")
    wrong = {"Authorization": "Bearer sk-nobody-has-this-one"}
    assert (await team.post(CHAT, json=asked(), headers=wrong)).status_code == 401
    await told(configured, "failure_hook", error="AuthenticationError")
    assert "sk-nobody" not in configured.records.read_text()


async def test_deployment_defaults_fill_missing_parameters(
    configured: Configured, team: httpx.AsyncClient, backend: FakeBackend
) -> None:
    assert (await team.post(CHAT, json=asked(model="defaults"))).status_code == 200
    sampling = backend.requests[-1].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k) == (0.125, 7, 3)
    assert (await team.post(CHAT, json=asked(model="defaults", temperature=1))).status_code == 200
    assert backend.requests[-1].sampling.temperature == 1
    event = (await told(configured, "success", 2))[-1]
    assert "team-a" in event["payload"]["request_tags"]


async def test_model_alias_is_served(configured: Configured, team: httpx.AsyncClient) -> None:
    response = await team.post(CHAT, json=asked(model="short"))
    assert response.status_code == 200
    (event,) = await told(configured, "success")
    assert event["payload"]["model_group"] in ("short", "tiny")


async def test_deployment_rpm_returns_429(team: httpx.AsyncClient) -> None:
    said = [(await team.post(CHAT, json=asked(model="limited"))).status_code for _ in range(5)]
    assert said[:2] == [200, 200]
    assert said[-1] == 429


async def test_responses_have_cross_origin_headers(team: httpx.AsyncClient) -> None:
    response = await team.post(CHAT, json=asked(), headers={"Origin": BROWSER_ORIGIN})
    assert response.headers["access-control-allow-origin"] in ("*", BROWSER_ORIGIN)


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/engines/tiny/chat/completions",
             "/openai/deployments/tiny/chat/completions"],
)  # fmt: skip
async def test_other_paths_for_chat_completions_are_served(
    team: httpx.AsyncClient, path: str
) -> None:
    body = asked()
    if path.count("/") > 2:
        del body["model"]
    response = await team.post(path, json=body)
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "Hello there"


async def test_status_and_log_show_the_route(
    configured: Configured, team: httpx.AsyncClient
) -> None:
    status = (await team.get("/toolgate/status")).json()
    models = {model["model"]: (model["route"], model["reason"]) for model in status["models"]}
    if configured.way == "own":
        assert models["tiny"] == ("own", None)
        assert "Model tiny: own route." in configured.log.read_text()
    else:
        assert models["tiny"] == ("litellm", "TOOLGATE_ROUTE=litellm")
        assert "because of TOOLGATE_ROUTE=litellm" in configured.log.read_text()
