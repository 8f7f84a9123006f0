"""LiteLLM's callbacks on the gateway's own route."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
import pytest
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.own_route import Gateway, asked, chat, ours
from tests.support.litellm.router import Row, use
from tests.support.servers.script import Script
from tests.support.waiting import until


class Team(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """A team's callback: refuses and changes requests by their content, and records events."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []
        self.successes: list[Any] = []
        self.failures: list[Any] = []

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        self.models.append(data.get("model"))
        last = data["messages"][-1]
        if last["content"] == "refused":
            raise HTTPException(429, {"error": "Not now."}, headers={"retry-after": "3"})
        if last["content"] == "changed":
            last["content"] = "hi"
        return data

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.successes.append(response_obj)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.failures.append(kwargs["exception"])

    async def settled(self) -> None:
        await until(lambda: self.successes or self.failures)


@pytest.fixture
def team(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Team:
    made = Team()
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


@pytest.mark.parametrize("stream", [True, False])
async def test_response_is_logged_once_with_its_content(
    gateway: Gateway, team: Team, stream: bool
) -> None:
    response = await gateway.ask(chat(stream=stream))
    assert (response.status, response.text) == (200, "Hello there")
    await team.settled()
    await asyncio.sleep(0.05)
    [logged] = team.successes
    assert logged.choices[0].message.content == "Hello there"
    assert logged.usage.prompt_tokens == 11
    assert not team.failures


async def test_stream_left_by_its_client_is_logged_with_the_text_sent(
    gateway: Gateway, team: Team
) -> None:
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    await gateway.ask(chat("hang", stream=True), leave_after=0.3)
    await team.settled()
    [logged] = team.successes
    assert "Hello there".startswith(logged.choices[0].message.content)
    assert not team.failures


@pytest.mark.parametrize("body", [chat("breaks"), chat(temperature="hot")], ids=["late", "early"])
async def test_failure_is_logged_once(gateway: Gateway, team: Team, body: Row) -> None:
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    response = await gateway.ask(body)
    await team.settled()
    await asyncio.sleep(0.05)
    [failure] = team.failures
    assert failure.status_code == response.status >= 400
    assert not team.successes


async def test_prices_of_a_deployment_are_those_of_its_cost(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt has 11 tokens, of which 3 are cached."""
    costs: list[float] = []

    class Observer(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
        async def async_log_success_event(self, kwargs: Any, **_: Any) -> None:
            costs.append(kwargs["response_cost"])

    monkeypatch.setattr(litellm, "callbacks", [Observer()])
    prices = {
        "input_cost_per_token": 1.0,
        "output_cost_per_token": 0.0,
        "cache_read_input_token_cost": 0.5,
    }
    priced = ours(gateway.backend, **prices)
    priced["model_info"]["id"] = "priced"
    use(monkeypatch, priced)
    assert (await gateway.ask(chat())).status == 200
    await until(lambda: costs)
    assert costs == [pytest.approx(8 * 1.0 + 3 * 0.5)]


async def test_pre_call_hook_may_change_a_request(gateway: Gateway, team: Team) -> None:
    assert (await gateway.ask(chat("changed"))).text == "Hello there"
    assert asked(gateway.backend) == ["hi"]


async def test_pre_call_hook_may_reject_a_request(gateway: Gateway, team: Team) -> None:
    response = await gateway.ask(chat("refused"))
    assert (response.status, response.json["error"]["message"]) == (429, "Not now.")
    assert gateway.backend.requests == []


async def test_headers_of_a_rejecting_hook_are_sent(gateway: Gateway, team: Team) -> None:
    """LiteLLM also sends the headers of an HTTPException."""
    response = await gateway.ask(chat("refused"))
    assert response.headers.get(b"retry-after") == b"3"


async def test_pre_call_hook_gets_the_model_of_the_path(gateway: Gateway, team: Team) -> None:
    for model in (None, "other"):
        await gateway.ask(chat(model=model), path="/engines/tiny/chat/completions")
    assert team.models == ["tiny", "tiny"]


async def test_failure_hook_may_replace_the_error(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM also sends the exception that the hook returns."""

    class Replacing(CustomLogger):  # type: ignore[misc]
        async def async_post_call_failure_hook(self, *args: Any, **more: Any) -> HTTPException:
            return HTTPException(418, {"error": "A teapot."})

    monkeypatch.setattr(litellm, "callbacks", [Replacing()])
    response = await gateway.ask(chat(temperature="hot"))
    assert response.status == 418
