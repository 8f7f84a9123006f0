"""Requests with shared tools are read as those with the same tools of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import refuse
from toolgate_proxy.api.chat_completions import request as chat
from toolgate_proxy.api.chat_completions.search import with_search
from toolgate_proxy.api.messages import request as messages
from toolgate_proxy.api.responses import request as responses
from toolgate_proxy.api.responses.shown_tools import offered
from toolgate_proxy.api.shared import tool_entries
from toolgate_proxy.api.surface import Client
from toolgate_proxy.shared_json import json_parts, plain
from toolgate_proxy.shared_tools import SharedTools

Json = dict[str, Any]
Reader = Callable[..., ChatRequest]
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
SEARCHES: dict[str, Json] = {
    "chat": {"type": "tool_search"},
    "messages": {"type": "tool_search_tool_bm25_20251119", "name": "look_up"},
    "responses": {"type": "tool_search"},
}
LATER = {"defer_loading": True}
PARSERS: dict[str, Reader] = {
    "chat": chat.parse_request,
    "messages": messages.parse_request,
    "responses": responses.parse_request,
}


def tool(api: str, name: Any, **more: Any) -> Json:
    if api == "messages":
        return {"name": name, "input_schema": SCHEMA, **more}
    if api == "responses":
        return {"type": "function", "name": name, "parameters": SCHEMA, **more}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}, **more}


def namespace(*tools: Json) -> Json:
    return {"type": "namespace", "name": "shop", "description": "A shop.", "tools": [*tools]}


def found(api: str, *names: str) -> Json:
    """A message or an item that loads tools."""
    if api == "responses":
        return {"type": "tool_search_output", "tools": [tool(api, name) for name in names]}
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


def read(api: str, tools: list[Any], *, engine: Any = None, **params: Any) -> Any:
    """What the request has, or its error. `engine`: searches the web."""
    headers = {"anthropic-beta": params.pop("beta", "")}
    options = {name: params.pop(name) for name in ("omit_hosted",) if name in params}
    history = [{"role": "user", "content": "hi"}]
    if names := params.pop("found", ()):
        history.append(found(api, *names))
    given = {"input": history} if api == "responses" else {"messages": history, "max_tokens": 9}
    body, client = {**given, "tools": tools, **params}, Client(headers, search_engine=engine)
    try:
        asked = PARSERS[api](body, model="m", client=client, **options)
        later = [each(refuse) for each in asked.deferred_tools]
        paths = [each.param for each in (*asked.tools, *later) if each is not None]
    except InvalidRequest as error:
        return type(error), error.message, error.param
    shown = offered(asked.repeated.get("tools", ()), {f"t{at}" for at in range(9)} | {"a", "shell"})
    written = b"".join(map(plain, json_parts({"tools": shown}, orjson.dumps)))
    assert written == orjson.dumps({"tools": [*shown]})
    return (
        asked.tools,
        asked.messages,
        later,
        paths,
        asked.omitted_tools,
        {name: value for name, value in asked.repeated.items() if name != "tools"},
        [*shown],
        asked.tool_choice,
        [*asked.gateway_tools],
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
        [tool("chat" if api == "messages" else "messages", "a", **LATER), tool(api, "b")],
        {},
    ),
    "namespaces": lambda api: (
        [
            SEARCHES[api],
            namespace(tool(api, "a"), tool(api, "b", **LATER)),
            tool(api, "a"),
            namespace(tool(api, "c", **LATER)),
        ],
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


@st.composite
def arrays(draw: st.DrawFn, api: str) -> list[Any]:
    """Arrays of tools, of which many have the same names, and some are invalid."""
    name = st.sampled_from(["a", "b", "shop.a", "tool_search", "web_search", "shell", "a b", None])
    more = st.sampled_from([{}, LATER, LATER, {"strict": "x"}, {"odd": 1, **LATER}])
    functions = st.builds(lambda name, more: tool(api, name, **more), name, more)
    hosted = ("web_search", "web_search_20250305", "image_generation", "tool_search_tool_x", "mcp")
    others: list[Any] = [
        *[SEARCHES[api]] * 3,
        {"type": "tool_search", "execution": "client"},
        {"type": "tool_search", "execution": "odd"},
        {"type": "custom", "name": "c"},
        {"type": "custom", "name": "b", **LATER},
        *({"type": kind, "name": "b"} for kind in hosted),
        *({"type": kind} for kind in ("shell", "local_shell", "odd")),
        "no tool",
    ]
    namespaces = st.lists(functions, max_size=3).map(lambda tools: namespace(*tools))
    # Valid ones most of the time, or the first error would hide all others.
    valid = st.sampled_from([tool(api, f"t{at}", **LATER) for at in range(9)])
    search = st.just(SEARCHES[api])
    entries = st.one_of(valid, valid, search, functions, st.sampled_from(others), namespaces)
    return draw(st.lists(entries, max_size=8))


@pytest.mark.parametrize("api", SEARCHES)
@examples(150, nightly=5000)
@given(data=st.data())
def test_all_shared_tools_are_read_as_others(api: str, data: st.DataObject) -> None:
    tools = data.draw(arrays(api))
    shared = SharedTools(tools)
    for _ in range(3):
        params = {
            "omit_hosted": data.draw(st.booleans()),
            "engine": data.draw(st.sampled_from([None, "engine"])),
            "found": data.draw(st.sampled_from([(), ("a",), ("t1", "t2")])),
        }
        assert read(api, shared, **params) == read(api, tools, **params)


@pytest.mark.parametrize("api", SEARCHES)
def test_shared_deferred_tools_are_read_once(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedTools([SEARCHES[api], *(tool(api, f"t{at}", **LATER) for at in range(50))])
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
