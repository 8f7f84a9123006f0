"""LiteLLM's configuration on both routes: events, limits and origins."""

import asyncio

import pytest

from tests.proxy.process.kit import CHAT
from tests.support.servers.gateway_process import BROWSER_ORIGIN
from tests.support.servers.virtual_keys import make_key

MODELS = pytest.mark.parametrize("model", ["tiny", "mixed"])
"""On our own route, and on LiteLLM's."""


def asked(content="hi", model="tiny", **params):
    return {"model": model, "messages": [{"role": "user", "content": content}], **params}


@MODELS
@pytest.mark.parametrize("stream", [False, True])
async def test_one_success_event_a_request(configured, team, model, stream):
    alias = f"events-{model}-{stream}"
    key, _ = await make_key(
        configured.redis, configured.url, alias=alias, team="web", tags=("t1",), rpm=100
    )
    body = asked(model=model, stream=stream, temperature=0.5, user="u1")
    response = await team.post(CHAT, json=body, headers={"Authorization": f"Bearer {key}"})
    assert response.status_code == 200
    (event,) = await configured.told("success")
    await asyncio.sleep(0.3)
    assert len(configured.events("success")) == 1
    payload = event["payload"]
    expected = {
        "call_type": "acompletion",
        "model": "toolgate/tiny",
        "model_group": model,
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


@MODELS
async def test_failure_events_have_litellms_error_class(configured, team, model):
    key, _ = await make_key(configured.redis, configured.url, alias=f"few-{model}", rpm=1)
    headers = {"Authorization": f"Bearer {key}"}
    assert (await team.post(CHAT, json=asked(model=model), headers=headers)).status_code == 200
    assert (await team.post(CHAT, json=asked(model=model), headers=headers)).status_code == 429
    await configured.told("failure_hook", error="RateLimitError")
    wrong = {"Authorization": "Bearer sk-nobody-has-this-one"}
    assert (await team.post(CHAT, json=asked(model=model), headers=wrong)).status_code == 401
    await configured.told("failure_hook", error="AuthenticationError")
    assert "sk-nobody" not in configured.records.read_text()


async def test_deployment_rpm_returns_429(team):
    said = [(await team.post(CHAT, json=asked(model="limited"))).status_code for _ in range(5)]
    assert said[:2] == [200, 200]
    assert said[-1] == 429


async def test_responses_have_cross_origin_headers(team):
    response = await team.post(CHAT, json=asked(), headers={"Origin": BROWSER_ORIGIN})
    assert response.headers["access-control-allow-origin"] in ("*", BROWSER_ORIGIN)


async def test_status_shows_the_route_and_other_providers(team):
    status = (await team.get("/toolgate/status")).json()
    models = {model["model"]: (model["route"], model["reason"]) for model in status["models"]}
    assert models["tiny"] == ("own", None)
    assert models["mixed"][0] == "litellm"
    assert status["others"]["keyless-claude"] == ["anthropic/claude-y"]
