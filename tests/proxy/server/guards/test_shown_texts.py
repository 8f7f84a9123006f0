"""Every text of a request that reaches the prompt is shown to guardrails, which change or refuse it
there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy.server.test_history_member_effects import ENTRIES
from tests.support.effort import repeats
from tests.support.litellm.fallbacks import APIS
from tests.support.litellm.guards import KEPT, MARK, Unified, use_callback
from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script

USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a": {"description": "x", "enum": ["x"]}}}
CALL = {"name": "dim", "arguments": '{"a": "x"}'}
TEXT = {"type": "text", "text": "x"}
FOUND = {"type": "search_result", "source": "x", "title": "x", "content": [TEXT]}
PAGE = {"type": "web_search_result", "url": "u", "title": "x", "encrypted_content": "e"}
DOCUMENT = {"type": "document", "title": "x", "context": "x"}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "x"}
MORE = {"documents": [{"title": "x", "text": "x"}], "chat_template_kwargs": {"a": "x"}}
LOOK = {"name": "look", "description": "x", "parameters": SCHEMA}
NESTED = {"type": "namespace", "name": "crm", "description": "d", "tools": [LOOK]}
BODIES: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"tools": [{"type": "function", "function": LOOK}], **MORE, "messages": [
            {"role": "system", "content": "x"},
            {"role": "user", "content": [TEXT]},
            {"role": "assistant", "tool_calls": [
                {"id": "c1", "type": "function", "function": CALL},
                {"id": "c2", "type": "custom", "custom": {"name": "dim", "input": "x"}}],
             "content": "x", "reasoning_content": "x"},
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
            {"role": "tool", "tool_call_id": "c2", "content": [TEXT]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]},
            {"role": "assistant", "refusal": "x"}, USER]},
        {"functions": [LOOK], "messages": [
            {"role": "developer", "content": [TEXT]},
            {"role": "assistant", "content": None, "function_call": CALL},
            {"role": "function", "name": "dim", "content": "x"}, USER]},
    ],
    "responses": [
        {"input": "x", "instructions": "x", "tools": [LOOK | {"type": "function"}], **MORE},
        {"input": "hi", "tools": [{"type": "custom", "name": "dim", "description": "x"}, NESTED]},
        {"input": [{"role": "developer", "content": "x"},
                   {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
                   {"role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]},
                   {"type": "function_call", "call_id": "c1", **CALL},
                   {"type": "function_call_output", "call_id": "c1", "output": [
                       {"type": "input_text", "text": "x"}]},
                   {"type": "additional_tools", "tools": [LOOK | {"type": "function"}]}]},
        {"previous_response_id": None, "input": [
            {"type": "function_call_output", "call_id": "c1", "output": "x"}]},
        *({"input": [*before, entry, *after]} for (api, _), (before, entry, after)
          in ENTRIES.items() if api == "responses"),
    ],
    "messages": [
        {"system": [TEXT], "tools": [{"name": "look", "description": "x", "input_schema": SCHEMA}],
         **MORE, "messages": [
            {"role": "user", "content": [TEXT, FOUND, DOCUMENT | {"source": PLAIN}]},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "s1", "name": "web_search",
                 "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [PAGE]},
                {"type": "mcp_tool_use", "id": "m1", "name": "dim", "server_name": "s",
                 "input": {"a": "x"}},
                {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [TEXT]},
                {"type": "tool_use", "id": "t1", "name": "dim", "input": {"a": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
                TEXT, FOUND, DOCUMENT | {"source": {"type": "content", "content": [TEXT]}}]}]},
            {"role": "system", "content": "x"}, USER]},
        {"system": "x", "messages": [USER, {"role": "assistant", "content": "x"}, USER]},
    ],
}  # fmt: skip
"""Requests with texts in each place. `x` reaches the prompt."""


def marked(value: Any) -> Iterator[Any]:
    """Yield the value with the mark in each of its strings."""
    if isinstance(value, str):
        yield value.replace('"x"', f'"{MARK}"') if value.startswith("{") else f"{value} {MARK}"
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from ({**value, name: made} for made in marked(each))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from ([*value[:at], made, *value[at + 1 :]] for made in marked(each))


async def prompt(gateway: Gateway, api: str, body: dict[str, Any]) -> tuple[int, str]:
    gateway.backend.requests.clear()
    gateway.backend.turns[:] = [Script(("Hello",))]
    response = await gateway.ask(body_of(api, **body), path=PATHS[api])
    sent = [each.prompt.model_dump_json() for each in gateway.backend.requests]
    return response.status, "".join(sent)


@APIS
async def test_guardrail_sees_each_text_of_the_prompt(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """It changes them, through the texts or the messages that it is shown, or refuses them."""
    marks = [made for body in BODIES[api] for made in marked(body)]
    reached, unseen = 0, []
    for body in marks[:: repeats(3, nightly=1)]:
        use_callback(monkeypatch)
        status, sent = await prompt(gateway, api, body)
        if status != 200 or MARK not in sent:
            continue
        reached += 1
        for changes in KEPT:
            use_callback(monkeypatch, Unified(changes))
            status, sent = await prompt(gateway, api, body)
            if changes == "during_call":
                is_seen = status == 400
            else:
                is_seen = status == 200 and MARK not in sent
            unseen += [] if is_seen else [(changes, body)]
    assert unseen == []
    assert reached >= 10
