"""Reasoning that clients drop comes back to the model, on all three APIs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.litellm.own_route import MASTER, Gateway, Response
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.kept_reasoning import KeptReasoning
from toolgate_proxy.kept_values import MemoryValues
from toolgate_proxy.settings import Settings

SCHEMA = {"type": "object", "properties": {}}
USER = {"role": "user", "content": "Look."}
THOUGHT = "Hm, let me look"


def _chat(body: Any) -> list[Any]:
    message = body["choices"][0]["message"]
    [made] = message["tool_calls"]
    turn = {"role": "assistant", "content": None, "tool_calls": [made]}
    return [turn, {"role": "tool", "tool_call_id": made["id"], "content": "found"}]


def _responses(body: Any) -> list[Any]:
    [made] = [item for item in body["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "found"}
    return [made, result]


def _messages(body: Any) -> list[Any]:
    [made] = [block for block in body["content"] if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": made["id"], "content": "found"}
    return [{"role": "assistant", "content": [made]}, {"role": "user", "content": [result]}]


@dataclass(frozen=True)
class Api:
    path: str
    field: str
    """The field with the conversation."""
    tool: dict[str, Any]
    result: Callable[[Any], list[Any]]
    """The turn without its reasoning, and the result of its call."""
    more: dict[str, Any]


FUNCTION = {"name": "look", "parameters": SCHEMA}
APIS = {
    "chat": Api(
        "/v1/chat/completions", "messages", {"type": "function", "function": FUNCTION}, _chat, {}
    ),
    "responses": Api(
        "/v1/responses", "input", {"type": "function", **FUNCTION}, _responses, {"store": False}
    ),
    "messages": Api(
        "/v1/messages",
        "messages",
        {"name": "look", "input_schema": SCHEMA},
        _messages,
        {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
}


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    keep(gateway, "tiny")
    gateway.backend.scripts |= {
        "Look.": Script((f"<think>{THOUGHT}</think>{call('look', {})}",)),
        "found": Script(("It is there",)),
    }


def keep(gateway: Gateway, models: str) -> None:
    settings = Settings(keep_reasoning=models, redis_url=None)  # type: ignore[arg-type]
    gateway.configure(keep_reasoning=settings.keep_reasoning)
    gateway.here.kept_reasoning = KeptReasoning(MemoryValues(), settings)


async def ask(gateway: Gateway, api: Api, given: list[Any], key: str = MASTER) -> Response:
    body = {"model": "tiny", api.field: given, "tools": [api.tool], **api.more}
    response = await gateway.ask(body, path=api.path, key=key)
    assert response.status == 200, response.json
    return response


def sent_reasoning(gateway: Gateway) -> str | None:
    """The reasoning of the first turn in the last prompt."""
    sent = gateway.backend.messages()
    [turn] = [message for message in sent if message["role"] == "assistant"]
    return turn.get("reasoning_content")


@pytest.mark.parametrize(
    ("models", "found"), [("tiny", THOUGHT), ("*", THOUGHT), ("another, third", None)]
)
async def test_reasoning_of_the_chosen_models_comes_back(
    gateway: Gateway, api: Api, models: str, found: str | None
) -> None:
    keep(gateway, models)
    first = await ask(gateway, api, [USER])
    await ask(gateway, api, [USER, *api.result(first.json)])
    assert (sent_reasoning(gateway) or None) == found


async def test_reasoning_of_the_client_has_precedence(gateway: Gateway) -> None:
    api = APIS["chat"]
    first = await ask(gateway, api, [USER])
    turn, result = api.result(first.json)
    await ask(gateway, api, [USER, {**turn, "reasoning_content": "Mine"}, result])
    assert sent_reasoning(gateway) == "Mine"


async def test_another_key_gets_nothing(gateway: Gateway, api: Api) -> None:
    first = await ask(gateway, api, [USER])
    gateway.add_key("sk-other", key_of("sk-other"))
    await ask(gateway, api, [USER, *api.result(first.json)], key="sk-other")
    assert not sent_reasoning(gateway)


async def test_a_turn_moves_to_another_api(gateway: Gateway) -> None:
    first = await ask(gateway, APIS["messages"], [USER])
    [made] = [block for block in first.json["content"] if block["type"] == "tool_use"]
    turn = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": made["id"].replace("toolu_", "call_"),
                "type": "function",
                "function": {"name": "look", "arguments": json.dumps(made["input"])},
            }
        ],
    }
    result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "found"}
    await ask(gateway, APIS["chat"], [USER, turn, result])
    assert sent_reasoning(gateway) == THOUGHT
