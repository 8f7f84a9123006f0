"""`context_management` of the Messages API on the gateway's own route."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script
from toolgate_proxy.chat.request.shortening import CLEARED

PATH = "/v1/messages"
USES = "clear_tool_uses_20250919"
ONE = {"type": "tool_uses", "value": 1}
EDIT = {"type": USES, "trigger": ONE, "keep": ONE}
Json = dict[str, Any]


def called(number: int) -> list[Json]:
    """A call and its result."""
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"a": number}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"Saw {number}."}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


HISTORY = [{"role": "user", "content": "Look."}, *called(1), *called(2)]


async def ask(gateway: Gateway, path: str = PATH, **params: Any) -> Response:
    gateway.backend.scripts |= dict.fromkeys(("Saw 2.", "hi"), Script(("Done.",)))
    body = {"model": "tiny", "max_tokens": 10, "messages": HISTORY, **params}
    return await gateway.ask(body, path=path)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_model_sees_the_edited_conversation(gateway: Gateway, stream: bool) -> None:
    response = await ask(gateway, stream=stream, context_management={"edits": [EDIT]})
    assert response.status == 200, response.bodies
    results = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert [each["content"] for each in results] == [CLEARED, "Saw 2."]
    shown = response.events[-2] if stream else response.json
    assert shown["context_management"] == {
        "applied_edits": [{"type": USES, "cleared_tool_uses": 1, "cleared_input_tokens": 0}]
    }


async def test_a_count_is_that_of_the_edited_conversation(gateway: Gateway) -> None:
    response = await ask(gateway, f"{PATH}/count_tokens", context_management={"edits": [EDIT]})
    assert response.json == {
        "input_tokens": 11, "context_management": {"original_input_tokens": 11}
    }  # fmt: skip
    assert CLEARED in gateway.backend.counts[-1].model_dump_json()
    plain = await ask(gateway, f"{PATH}/count_tokens")
    assert plain.json == {"input_tokens": 11}


async def test_a_conversation_beyond_the_context_goes_on(gateway: Gateway) -> None:
    """Without an edit it would be refused, so the edit applies before its trigger is reached."""
    long = "word " * 400
    bounds = {"max_model_len": 400, "max_token_bytes": 4}
    info = gateway.backend.info
    gateway.backend.info = info.model_copy(update={"limits": info.limits.model_copy(update=bounds)})
    try:
        history = json.loads(json.dumps(HISTORY))
        history[2]["content"][0]["content"] = long
        refused = await ask(gateway, messages=history)
        assert refused.json["error"]["code"] == "context_length_exceeded"
        edits = [{"type": USES, "keep": ONE}]
        response = await ask(gateway, messages=history, context_management={"edits": edits})
        assert response.status == 200, response.bodies
        [applied] = response.json["context_management"]["applied_edits"]
        assert applied["cleared_input_tokens"] > 400
    finally:
        gateway.backend.info = info
