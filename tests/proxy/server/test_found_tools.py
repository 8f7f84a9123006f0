"""Tools that are found in a conversation: what reaches the backend, and what the client gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import CHAT, Gateway
from tests.support.servers.script import Script, call
from toolgate_core import wire

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
HI = {"role": "user", "content": "hi"}
PATHS = {"chat": CHAT, "responses": "/v1/responses", "messages": "/v1/messages"}


def named(name: str) -> dict[str, Any]:
    return {"name": name, "parameters": SCHEMA}


def in_messages(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": SCHEMA}


FUNCTION_CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
REFERENCE = {"type": "tool_reference", "tool_name": "close"}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [REFERENCE]}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            HI,
            {"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [REFERENCE]},
        ],
        "tools": [
            {"type": "function", "function": named("find")},
            *(
                {"type": "function", "function": named(name), "defer_loading": True}
                for name in ("close", "open")
            ),
        ],
        "tool_choice": "required",
    },
    "messages": {
        "max_tokens": 50,
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}],
            },
            {"role": "user", "content": [RESULT]},
        ],
        "tools": [
            in_messages("find"),
            *({**in_messages(name), "defer_loading": True} for name in ("close", "open")),
        ],
        "tool_choice": {"type": "any"},
    },
    "responses": {
        "input": [
            HI,
            {"type": "tool_search_call", "call_id": "c1", "arguments": {}},
            {
                "type": "tool_search_output",
                "call_id": "c1",
                "tools": [{"type": "function", **named("close")}],
            },
        ],
        "tools": [
            {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
            {"type": "function", **named("open"), "defer_loading": True},
        ],
        "tool_choice": "required",
    },
}


@pytest.mark.parametrize("api", PATHS)
async def test_a_found_tool_is_enforced_and_others_reach_no_backend(
    gateway: Gateway, api: str
) -> None:
    gateway.backend.turns = [Script((call("close", {"room": "4"}),))]
    response = await gateway.ask({"model": "tiny", **BODIES[api]}, path=PATHS[api])
    assert response.status == 200
    assert '"room": "4"' in json.dumps(response.json).replace('\\"', '"')
    [sent] = gateway.backend.requests
    assert isinstance(sent.prompt, wire.ChatPrompt)
    assert sent.enforcement is not None
    search = "tool_search" if api == "responses" else "find"
    assert [each.name for each in sent.enforcement.candidates] == [search, "close"]
    assert [tool["function"]["name"] for tool in sent.prompt.tools or ()] == [search]
    assert sent.prompt.messages[-1]["content"] == [
        {"type": wire.TOOL_DEFINITIONS, "tools": [{"type": "function", "function": named("close")}]}
    ]
    assert '"open"' not in sent.model_dump_json()
    assert "open" not in {source.name for source in gateway.backend.sources}
