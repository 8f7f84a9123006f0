"""The room that reasoning leaves for a required call, on the gateway's own route."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import Gateway, chat

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
    },
}


@pytest.mark.parametrize("tokens", [None, 0, 9])
async def test_a_request_sets_the_room_itself(gateway: Gateway, tokens: int | None) -> None:
    own = {} if tokens is None else {"toolgate": {"call_tokens": tokens}}
    await gateway.ask(chat(tools=[LOOK], tool_choice="required", **own))
    enforcement = gateway.backend.requests[-1].enforcement
    assert enforcement is not None
    assert enforcement.call_tokens == tokens
