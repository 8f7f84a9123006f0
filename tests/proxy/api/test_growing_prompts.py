"""The prompt of a conversation in which tools are found grows only at its end, in all APIs, so that
the prefix cache has all of the earlier prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jinja2
import pytest

from toolgate_backend.endpoint.added_tools import AddedTools
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES
from toolgate_proxy.chat.constraints import chat_prompt

TEMPLATE = jinja2.Environment().from_string(
    "{% for t in tools or [] %}{{ t.function.name }}: {{ t.function.parameters }}\n{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.tool_calls }}\n{% endfor %}"
)
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
COUNT = 10
"""Turns, in each of which another tool is found."""


async def rendered(asked: ChatRequest) -> str:
    async def render(messages: Sequence[Any], tools: Sequence[Any] | None) -> str:
        return TEMPLATE.render(messages=messages, tools=tools)

    prompt = chat_prompt(asked)
    messages = await AddedTools(render, []).shown(prompt)
    return TEMPLATE.render(messages=json.loads(json.dumps(messages)), tools=prompt.tools)


def in_chat(turns: int) -> dict[str, Any]:
    def function(name: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}

    messages: list[Any] = [{"role": "user", "content": "Begin."}]
    for at in range(turns):
        called = {"name": "search", "arguments": "{}"}
        call = {"id": f"c{at}", "type": "function", "function": called}
        found = {"type": "tool_reference", "tool_name": f"tool_{at}"}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{at}", "content": [found]},
            {"role": "assistant", "content": "Found."},
            {"role": "user", "content": "Go on."},
        ]
    later = [{**function(f"tool_{at}"), "defer_loading": True} for at in range(COUNT)]
    return {"messages": messages, "tools": [function("search"), *later]}


def in_messages(turns: int) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "Begin."}]
    for at in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "search", "input": {}}
        found = {"type": "tool_reference", "tool_name": f"tool_{at}"}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": [found]}
        messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "Found."},
            {"role": "user", "content": "Go on."},
        ]
        if at % 2:
            tool = {"type": "tool_reference", "name": f"tool_{at}"}
            removal = {"type": "tool_removal", "tool": tool}
            messages += [
                {"role": "system", "content": [removal]},
                {"role": "assistant", "content": "Well."},
                {"role": "user", "content": "Go on."},
            ]
    tools = [{"name": "search", "input_schema": SCHEMA}]
    later = [
        {"name": f"tool_{at}", "input_schema": SCHEMA, "defer_loading": True} for at in range(COUNT)
    ]
    return {"messages": messages, "tools": [*tools, *later], "max_tokens": 9}


def in_responses(turns: int) -> dict[str, Any]:
    items: list[Any] = [{"role": "user", "content": "Begin."}]
    for at in range(turns):
        tool = {"type": "function", "name": f"tool_{at}", "parameters": SCHEMA}
        space = {"type": "namespace", "name": "shop", "tools": [tool]}
        items += [
            {"type": "tool_search_call", "call_id": f"c{at}", "arguments": {"query": "a"}},
            {"type": "tool_search_output", "call_id": f"c{at}", "tools": [space]},
            {"role": "assistant", "content": "Found."},
            {"type": "additional_tools", "role": "developer", "tools": [tool]},
            {"role": "user", "content": "Go on."},
        ]
    search = {"type": "tool_search", "execution": "client", "parameters": SCHEMA}
    return {"input": items, "tools": [search]}


@pytest.mark.parametrize(
    ("surface", "body"),
    [(COMPLETIONS, in_chat), (MESSAGES, in_messages), (RESPONSES, in_responses)],
    ids=["chat", "messages", "responses"],
)
async def test_a_prompt_begins_with_the_earlier_prompt(surface: Surface, body: Any) -> None:
    earlier = ""
    for turns in range(COUNT):
        asked = surface.parse({"model": "tiny", **body(turns)}, model="tiny")
        text = await rendered(asked)
        assert text.startswith(earlier)
        found = [f"tool_{at}" for at in range(turns)]
        assert all(name in text for name in found)
        assert f"tool_{turns}" not in text
        assert len(asked.prompt_tools) == 1
        earlier = text
