"""Requests with shared tools are read as those with the same tools of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import refuse
from toolgate_proxy.api.chat_completions import request as chat
from toolgate_proxy.api.chat_completions.search import with_search
from toolgate_proxy.api.messages import request as messages
from toolgate_proxy.api.shared import tool_entries
from toolgate_proxy.api.surface import Client
from toolgate_proxy.shared_tools import SharedTools

Json = dict[str, Any]
Reader = Callable[..., ChatRequest]
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
SEARCHES: dict[str, Json] = {
    "chat": {"type": "tool_search"},
    "messages": {"type": "tool_search_tool_bm25_20251119", "name": "look_up"},
}
LATER = {"defer_loading": True}


def tool(api: str, name: Any, **more: Any) -> Json:
    if api == "messages":
        return {"name": name, "input_schema": SCHEMA, **more}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}, **more}


def found(api: str, *names: str) -> Json:
    """A message that loads tools."""
    if api == "messages":
        content = [
            {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}}
            for name in names
        ]
        return {"role": "system", "content": content}
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]
    return {"role": "assistant", "tool_calls": calls}


def read(api: str, tools: list[Any], **params: Any) -> Any:
    """What the request has, or its error."""
    parse: Reader = chat.parse_request if api == "chat" else messages.parse_request
    headers = {"anthropic-beta": params.pop("beta", "")}
    history = [{"role": "user", "content": "hi"}]
    if names := params.pop("found", ()):
        history.append(found(api, *names))
    body = {"max_tokens": 9, "messages": history, "tools": tools, **params}
    try:
        asked = parse(body, model="m", client=Client(headers=headers))
        later = [each(refuse) for each in asked.deferred_tools]
    except InvalidRequest as error:
        return type(error), error.message, error.param
    return (
        asked.tools,
        asked.messages,
        later,
        asked.omitted_tools,
        asked.repeated,
        asked.tool_choice,
    )


CASES: dict[str, Callable[[str], tuple[list[Any], Json]]] = {
    "deferred": lambda api: ([tool(api, "a"), tool(api, "b", **LATER)], {}),
    "found": lambda api: (
        [SEARCHES[api], tool(api, "a"), tool(api, "b", **LATER), tool(api, "c", **LATER)],
        {"found": ("c",)},
    ),
    "many": lambda api: ([tool(api, f"t{at}", **LATER) for at in range(200)], {}),
    "search": lambda api: ([tool(api, "b", **LATER), SEARCHES[api], tool(api, "a")], {}),
    "two of one name": lambda api: (
        [tool(api, "a", **LATER), tool(api, "b"), tool(api, "a"), tool(api, "b", **LATER)],
        {},
    ),
    "other of one name": lambda api: (
        [tool(api, "a", **LATER), {**tool(api, "a"), "description": "x"}, tool(api, "b")],
        {},
    ),
    "named like the search": lambda api: (
        [SEARCHES[api], tool(api, "tool_search", **LATER), tool(api, "look_up", **LATER)],
        {},
    ),
    "hosted search": lambda api: (
        [tool(api, "a"), {"type": "tool_search_tool_x"}, tool(api, "b", **LATER)],
        {},
    ),
    "not offered search": lambda api: (
        [tool(api, "a"), SEARCHES[api], tool(api, "b", **LATER)],
        {"n": 2} if api == "chat" else {},
    ),
    "hosted": lambda api: (
        [{"type": "web_search_20250305", "name": "b"}, tool(api, "b", **LATER)],
        {},
    ),
    "no name": lambda api: ([tool(api, "a"), tool(api, None, **LATER), tool(api, 5)], {}),
    "invalid name": lambda api: ([tool(api, "a"), tool(api, "b c", **LATER)], {}),
    "invalid tool": lambda api: ([tool(api, "a", strict="x"), tool(api, "b", **LATER)], {}),
    "invalid deferred": lambda api: ([tool(api, "b", x=1, **LATER), "no tool"], {}),
    "invalid found": lambda api: (
        [tool(api, "a"), tool(api, "b", strict="x", **LATER)],
        {"found": ("b",)},
    ),
    "other form": lambda api: (
        [tool("messages" if api == "chat" else "chat", "a", **LATER), tool(api, "b")],
        {},
    ),
    "eager": lambda api: (
        [tool(api, "a"), tool(api, "b", **LATER)]
        + [tool(api, "c", eager_input_streaming=False, **LATER)] * (api == "messages"),
        {"beta": "fine-grained-tool-streaming-2025-05-14"},
    ),
    "flag of the function": lambda api: (
        [tool(api, "a"), tool(api, "b", **LATER), {"type": "function", "function": LATER}],
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("api", SEARCHES)
def test_shared_tools_are_read_as_others(api: str, case: str) -> None:
    tools, params = CASES[case](api)
    expected, shared = read(api, tools, **params), SharedTools(tools)
    assert [read(api, shared, **params) for _ in range(2)] == [expected, expected]
    # With another request in between, of the same tools.
    read(api, shared, **{**params, "n": 2} if api == "chat" else {**params, "beta": "x"})
    assert read(api, shared, **params) == expected


@pytest.mark.parametrize("api", SEARCHES)
def test_shared_deferred_tools_are_read_once(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedTools([tool(api, f"t{at}", **LATER) for at in range(50)])
    read(api, shared)
    monkeypatch.setattr(tool_entries, "TOOL_NAME", None)  # by which names are checked
    *_, later = read(api, shared)[:3]
    assert len(later) == 50


def test_a_search_is_added_to_shared_tools_once() -> None:
    shared = SharedTools([tool("chat", f"t{at}") for at in range(50)])
    body = {"tools": shared, "messages": []}
    first, second = (with_search(body, 10)["tools"] for _ in range(2))
    assert first is second
    assert first == with_search({**body, "tools": [*shared]}, 10)["tools"]
    assert isinstance(first, SharedTools)
    assert len(first.deferred) == 40
