"""Loops of four rounds with tools that the gateway runs: a stream has what the whole response
has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.long.hostile_loops.answers import Answer, comparable, read
from tests.support.litellm.mcp import FAIL, LOOKUP, ran
from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script, call
from tests.support.servers.search_engine import SearchEngine

URL = "litellm_proxy/mcp/shop"
ENTRY = {"type": "mcp", "server_label": "shop", "server_url": URL, "require_approval": "never"}
PAGE = {"title": "Paint", "url": "https://example.com/paint", "content": "It dries."}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"tools": [ENTRY]},
    "responses": {"tools": [ENTRY, {"type": "web_search"}], "max_output_tokens": 2000},
    "messages": {
        "mcp_servers": [{"type": "url", "name": "shop", "url": URL}],
        "tools": [
            {"type": "mcp_toolset", "mcp_server_name": "shop"},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "max_tokens": 2000,
    },
}
THOUGHT = "<think>\nHm.\n</think>\n\n"
LOOKUPS = "\n".join(call(LOOKUP, {"id": number}) for number in (1, 2))
ROUNDS = (
    f"{THOUGHT}Let me look.\n{LOOKUPS}",
    call(FAIL, {"id": 3}),
    f"{THOUGHT}{call('web_search', {'query': 'paint'})}",
    f"Once more.\n{call(LOOKUP, {'id': 4})}",
    f"It dries, says {PAGE['url']} there.",
)


@pytest.mark.parametrize("api", PATHS)
async def test_a_stream_of_four_rounds_is_the_whole_response(
    gateway: Gateway, calls: Path, engine: SearchEngine, api: str
) -> None:
    engine.pages = [PAGE]
    rounds = [each for each in ROUNDS if api != "chat" or "web_search" not in each]
    if api == "chat":  # has no web search
        rounds.insert(2, call(LOOKUP, {"id": 3}))

    async def answer(*, stream: bool) -> Answer:
        gateway.backend.turns = [Script((text,)) for text in rounds]
        usage = {"stream_options": {"include_usage": True}} if stream and api == "chat" else {}
        body = body_of(api, "go", **BODIES[api], stream=stream, **usage)
        response = await gateway.ask(body, path=PATHS[api])
        assert not gateway.backend.turns, response.bodies
        return read(api, response, streamed=stream)

    whole, streamed = await answer(stream=False), await answer(stream=True)
    assert not whole.failed
    assert len(whole.parts) > 3
    assert comparable(vars(streamed)) == comparable(vars(whole))
    assert len(engine.queries) == (0 if api == "chat" else 2)
    assert len(ran(calls)) == (8 if api == "chat" else 6)
