"""The room that reasoning leaves for a required call, on the gateway's own route."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import Gateway, chat
from tests.support.servers.script import Script, call, tokenize
from toolgate_core import wire
from toolgate_proxy.grammars.call_lengths import LEAST_CALLS, rounded

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
    },
}
REQUIRED = {"tools": [LOOK], "tool_choice": "required", "temperature": 1.0}


@pytest.fixture
def long_calls(gateway: Gateway) -> int:
    """The backend makes long calls. The number of tokens of one."""
    text = call("look", {"where": "north " * 40})
    gateway.backend.scripts["hi"] = Script((f"<think>hm</think>{text}",))
    return len(tokenize(text))


async def sent(gateway: Gateway, **params: Any) -> wire.Enforcement:
    """The enforcement of a request, as the backend got it."""
    response = await gateway.ask(chat(**{**REQUIRED, **params}))
    assert response.status == 200, response.json
    enforcement = gateway.backend.requests[-1].enforcement
    assert enforcement is not None
    return enforcement


async def learn(gateway: Gateway) -> int:
    """Makes enough calls, streamed and whole. The learnt length."""
    for at in range(LEAST_CALLS):
        assert (await sent(gateway, stream=at % 2 == 0)).seen_call_tokens is None
    await gateway.here.deployments.call_lengths.flush()
    seen = (await sent(gateway)).seen_call_tokens
    assert seen is not None
    return seen


async def test_lengths_of_calls_are_learnt(gateway: Gateway, long_calls: int) -> None:
    assert await learn(gateway) == rounded(long_calls)
    other = {**LOOK, "function": {**LOOK["function"], "name": "unused"}}
    assert (await sent(gateway, tools=[LOOK, other])).seen_call_tokens is not None


async def test_requests_that_can_be_reproduced_do_without(
    gateway: Gateway, long_calls: int
) -> None:
    await learn(gateway)
    for params in ({"seed": 1}, {"temperature": 0}, {"tool_choice": "auto"}):
        enforcement = await sent(gateway, **params)
        assert (enforcement.call_tokens, enforcement.seen_call_tokens) == (None, None)


async def test_a_request_sets_the_room_itself(gateway: Gateway, long_calls: int) -> None:
    await learn(gateway)
    enforcement = await sent(gateway, toolgate={"call_tokens": 9})
    assert (enforcement.call_tokens, enforcement.seen_call_tokens) == (9, None)
