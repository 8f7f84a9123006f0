"""The Messages API on the gateway's own route."""

from __future__ import annotations

import json
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.support.apis.messages_api import HI, LOOK, check_error
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, Gateway, Response, ours
from tests.support.litellm.router import foreign, use
from tests.support.servers.script import Script, call

PATH = PATHS["messages"]
COUNT = f"{PATH}/count_tokens"


async def ask(gateway: Gateway, script: str = "hi", path: str = PATH, **params: Any) -> Response:
    messages = [{"role": "user", "content": script}]
    body = {"model": "tiny", "max_tokens": 100, "messages": messages, **params}
    return await gateway.ask(body, path=path)


async def test_a_count_needs_no_max_tokens_and_reserves_no_output(gateway: Gateway) -> None:
    body = {"model": "tiny", "messages": HI, "system": "Be brief."}
    response = await gateway.ask(body, path=COUNT)
    assert (response.status, response.json) == (200, {"input_tokens": 11})
    assert response.context.used_tokens().total == 0
    prompt = gateway.backend.counts[-1].prompt
    assert prompt.kind == "chat"
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert not gateway.backend.requests


async def test_a_failed_count_is_an_error_of_the_backend(gateway: Gateway) -> None:
    error = {"message": "Too long.", "code": "context_length_exceeded", "param": "messages"}
    gateway.backend.scripts["long"] = Script((), error_status=400, error=error)
    response = await ask(gateway, "long", COUNT)
    assert (response.status, response.json["error"]["code"]) == (400, "context_length_exceeded")
    check_error(response.json)


async def test_other_providers_models_stay_litellms(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gateway.backend), foreign("claude"))
    for path in (PATH, COUNT):
        assert (await ask(gateway, path=path, model="claude")).status == 299
        assert gateway.host.passed.pop().path == path


@pytest.mark.parametrize("stream", [True, False])
async def test_log_event_has_the_message_as_a_completion(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    logged_events = log_events(monkeypatch)
    text = "<think>hm</think>\n\nI look." + call("look", {"a": "é"})
    gateway.backend.scripts["all"] = Script((text,))
    thinking = {"type": "adaptive"}
    response = await ask(gateway, "all", tools=[LOOK], thinking=thinking, stream=stream)
    assert response.status == 200
    call_type, logged = await logged_events.success()
    assert call_type == "anthropic_messages"
    choice = logged.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert choice.message.reasoning_content == "hm"
    [logged_call] = choice.message.tool_calls
    assert logged_call.id.startswith("toolu_")
    assert json.loads(logged_call.function.arguments) == {"a": "é"}
    assert (logged.usage.prompt_tokens, logged.usage.prompt_tokens_details.cached_tokens) == (11, 3)


async def test_a_pre_call_hook_may_change_the_request(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[str] = []

    class Team(CustomLogger):  # type: ignore[misc]
        async def async_pre_call_hook(
            self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
        ) -> dict[str, Any]:
            kinds.append(call_type)
            return data | {"temperature": 0.125}

    monkeypatch.setattr(litellm, "callbacks", [Team()])
    response = await ask(gateway, metadata={"user_id": "u"}, system="Be brief.")
    assert response.status == 200, response.json
    assert gateway.backend.requests[-1].sampling.temperature == 0.125
    counted = await ask(gateway, path=COUNT, metadata={"user_id": "u"})
    assert (counted.status, counted.json) == (200, {"input_tokens": 11})
    assert kinds == ["anthropic_messages"] * 2
