"""Requests with thousands of deferred tools and a search."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import PATHS, Gateway, body_of
from toolgate_proxy.api.shared.tools import MAX_TOOLS

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
SEARCHES: dict[str, Json] = {
    "chat": {"type": "tool_search"},
    "messages": {"type": "tool_search_tool_bm25_20251119", "name": "look_up"},
    "responses": {"type": "tool_search"},
}


def tool(api: str, at: int) -> Json:
    name, described = f"tool_{at}", {"description": f"Does {at}.", "defer_loading": True}
    if api == "messages":
        return {"name": name, "input_schema": SCHEMA, **described}
    if api == "chat":
        function = {"name": name, "parameters": SCHEMA}
        return {"type": "function", "function": function, **described}
    return {"type": "function", "name": name, "parameters": SCHEMA, **described}


def many(api: str, count: int = MAX_TOOLS - 1) -> str:
    """The search and so many tools."""
    tools = [tool(api, at) for at in range(count)]
    return json.dumps([SEARCHES[api], *tools])


def request(api: str, tools: str, said: str, **params: Any) -> bytes:
    head = json.dumps(body_of(api, said, **params))[:-1]
    return f'{head}, "tools": {tools}}}'.encode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_stored_response_has_all_tools(gateway: Gateway, stream: bool) -> None:
    content = request("responses", many("responses", 1_000), "hi", stream=stream)
    for _ in range(2):
        response = await gateway.ask(content, path=PATHS["responses"])
        sent = response.events[-1]["response"] if stream else response.json
        assert len(sent["tools"]) == 1_001
        path = f"{PATHS['responses']}/{sent['id']}"
        stored = await gateway.ask(b"", path=path, method="GET")
        assert stored.json == sent


@pytest.mark.parametrize("api", SEARCHES)
async def test_one_tool_more_than_allowed_is_refused(gateway: Gateway, api: str) -> None:
    content = request(api, many(api, MAX_TOOLS), "hi")
    response = await gateway.ask(content, path=PATHS[api])
    assert response.status == 400
    assert "'tools' has 10,002 entries, but at most 10,001" in response.json["error"]["message"]
