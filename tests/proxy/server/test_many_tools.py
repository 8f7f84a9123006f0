"""Requests with 10,000 deferred tools and a search: the gateway has one copy of them per sender."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from typing import Any

import pytest

from tests.support.effort import repeats
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, body_of
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.shared.tool_entries import MAX_TOOLS
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.server.transport import known_tools

Json = dict[str, Any]
QUERY = {"query": "tool"}
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
SEARCHES: dict[str, Json] = {
    "chat": {"type": "tool_search"},
    "messages": {"type": "tool_search_tool_bm25_20251119", "name": "look_up"},
    "responses": {"type": "tool_search"},
    "namespaces": {"type": "tool_search"},
}
"""By API, or form of its tools."""


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
    if api == "namespaces":
        tools = [
            {"type": "namespace", "name": f"n{at}", "description": "", "tools": tools[at : at + 50]}
            for at in range(0, count, 50)
        ]
    return json.dumps([SEARCHES[api], *tools])


def request(api: str, tools: str, said: str, **params: Any) -> bytes:
    of_api = api if api in PATHS else "responses"
    head = json.dumps(body_of(of_api, said, **params))[:-1]
    return f'{head}, "tools": {tools}}}'.encode()


def path_of(api: str) -> str:
    return PATHS.get(api, PATHS["responses"])


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> known_tools.KnownTools:
    """Those of this test only."""
    made = known_tools.KnownTools()
    monkeypatch.setattr("toolgate_proxy.server.transport.body.KNOWN_TOOLS", made)
    return made


@pytest.mark.parametrize("api", SEARCHES)
async def test_memory_does_not_grow_with_requests(
    gateway: Gateway, known: known_tools.KnownTools, api: str
) -> None:
    tools = many(api)

    store = {"store": False} if path_of(api) == PATHS["responses"] else {}

    async def ask(*said: str) -> None:
        """Send a request and a streamed one of each text."""
        for each in said:
            for stream in (False, True):
                gateway.backend.scripts[each] = Script(("Hello",))
                content = request(api, tools, each, stream=stream, **store)
                response = await gateway.ask(content, path=path_of(api))
                assert response.status == 200, response.bodies[0][:1000]
                del response
                gateway.backend.clear()  # it records its requests
        gc.collect()

    await ask("a", "b")
    tracemalloc.start()
    try:
        await ask("c")
        begun, _ = tracemalloc.get_traced_memory()
        await ask(*map(str, range(repeats(3, nightly=500))))
        grown = tracemalloc.get_traced_memory()[0] - begun
    finally:
        tracemalloc.stop()
    assert len(known._known) == 1
    assert grown < len(tools)


DIFFERENT = re.compile(
    rb"event: [a-z_.]*delta\ndata: [^\n]*\n\n|"
    rb'"[a-z_]*id":"[^"]*"|"(?:created|created_at|completed_at|output_tokens)":[0-9]+'
)
"""Ids, times, the tokens so far when a stream begins, and how many tokens an event has."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", SEARCHES)
async def test_responses_are_those_of_unknown_tools(
    gateway: Gateway, known: known_tools.KnownTools, api: str, stream: bool
) -> None:
    tools = many(api, 400).replace("Does 7.", "Finds é and \u2028.")
    tools = f'{tools[:-1]}, {{"type": "web_search_20250305", "name": "x"}}, {many(api, 300)[1:]}'
    gateway.configure(keepalive_seconds=0)
    found: list[bytes] = []
    for kept in (0, 10**9, 10**9):
        known._max_cost = kept
        gateway.backend.turns = [Script((call(SEARCHES[api].get("name", "tool_search"), QUERY),))]
        gateway.backend.turns.append(Script(("Hello",)))
        content = request(api, tools, "unknown", stream=stream)
        response = await gateway.ask(content, path=path_of(api))
        assert response.status == 200, response.bodies[0][:1000]
        found.append(DIFFERENT.sub(b"", b"".join(response.bodies)))
    assert len(known._known) == 1
    assert found[0] == found[1] == found[2]


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
        if stream:
            replayed = await gateway.ask(b"", path=path, method="GET", query="stream=true")
            assert replayed.events == response.events


@pytest.mark.parametrize("api", SEARCHES)
async def test_one_tool_more_than_allowed_is_refused(gateway: Gateway, api: str) -> None:
    if api == "namespaces":
        pytest.skip("it has fewer entries")
    content = request(api, many(api, MAX_TOOLS), "hi")
    response = await gateway.ask(content, path=path_of(api))
    assert response.status == 400
    assert "'tools' has 10,002 entries, but at most 10,001" in response.json["error"]["message"]


async def test_each_key_has_its_own(gateway: Gateway, known: known_tools.KnownTools) -> None:
    sent = new_key()
    gateway.add_key(sent, key_of(sent))
    content = request("chat", many("chat", 1_000), "hi")
    for key in (MASTER, sent, MASTER, sent):
        assert (await gateway.ask(content, key=key)).status == 200
    assert len({owner for owner, _ in known._known}) == len(known._known) == 2
