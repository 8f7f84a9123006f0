"""The routes behind the playground, and traces of tokens in streams of chat completions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.servers.fake_backend import WITHOUT_MASKS, FakeBackend
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, call
from toolgate_proxy.backend_client.event_stream import SseParser

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPENAI = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
MCP = {"name": "look", "inputSchema": SCHEMA}
ANTHROPIC = {"name": "look", "input_schema": SCHEMA}
GOOD, BAD = call("look", {"city": "Rome"}), call("look", {"town": "Rome"})


def body(content: str = "where?", **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": "tiny", "messages": messages, "tools": [OPENAI], **more}


def events(response: httpx.Response) -> list[dict[str, Any]]:
    payloads = SseParser().feed(response.content)
    return [json.loads(data) for data in payloads if data != b"[DONE]"]


def traces(response: httpx.Response) -> list[dict[str, Any]]:
    choices = [choice for event in events(response) for choice in event["choices"]]
    return [each for choice in choices for each in choice.get("toolgate", {}).get("trace", [])]


@pytest.mark.parametrize(
    "pasted",
    [
        OPENAI,
        [MCP],
        [ANTHROPIC],
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}},
        {"type": "function", "name": "look", "parameters": SCHEMA},
    ],
)
async def test_pasted_tools_become_those_of_chat_completions(
    http: httpx.AsyncClient, pasted: object
) -> None:
    response = await http.post("/toolgate/tools", json={"tools": pasted})
    assert response.json() == {"tools": [OPENAI], "omitted": []}


async def test_what_is_no_tool_is_refused_with_its_place(http: httpx.AsyncClient) -> None:
    response = await http.post("/toolgate/tools", json={"tools": [MCP, {"mcpServers": {}}]})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tools[1]"
    hosted = {"tools": [MCP, {"type": "web_search"}]}
    assert (await http.post("/toolgate/tools", json=hosted)).json()["omitted"] == ["web_search"]


async def test_the_same_prompt_without_enforcement_shows_what_is_broken(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts["where?" + WITHOUT_MASKS] = Script((BAD,))
    response = await http.post("/toolgate/unconstrained", json=body(tool_choice="required"))
    *texts, last = events(response)
    assert "".join(each["text"] for each in texts).startswith(BAD)
    [broken] = last["judgement"]["breaks"]
    assert broken["keyword"] in ("required", "additionalProperties")
    assert backend.requests[-1].enforcement is None
    assert len(backend.messages()) == 1


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [({"n": 2}, 400, "n"), ({"model": "none"}, 404, "model"), ({"messages": []}, 400, "messages")],
)
async def test_an_invalid_request_without_enforcement_is_refused(
    http: httpx.AsyncClient, changes: dict[str, Any], status: int, param: str
) -> None:
    response = await http.post("/toolgate/unconstrained", json=body(**changes))
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


async def test_these_routes_need_the_master_key(gateway: str, key: str) -> None:
    async with http_client(gateway, headers=bearer(key)) as client:
        for path in ("/toolgate/tools", "/toolgate/unconstrained"):
            assert (await client.post(path, json=body())).status_code == 403


@pytest.mark.parametrize("route", ["own"], indirect=True)
async def test_a_stream_has_the_trace_of_each_token_for_the_master_key(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts["where?"] = Script((GOOD,))
    asked = body(stream=True, stream_options={"toolgate_trace": True})
    found = traces(await http.post("/v1/chat/completions", json=asked))
    assert "".join(each["text"] for each in found) == GOOD + "<|im_end|>"
    assert [each["at"] for each in found] == [*range(len(found))]
    assert found[0] | {"id": 0} == {
        "at": 0, "id": 0, "text": "<tool_call>", "phase": "content", "kind": "forced", "allowed": 1
    }  # fmt: skip
    trace = backend.requests[-1].trace
    assert trace is not None
    assert [each.name for each in trace.grammars] == ["look"]


@pytest.mark.parametrize("route", ["own"], indirect=True)
async def test_a_stream_without_that_option_has_no_trace(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    backend.scripts["where?"] = Script((GOOD,))
    response = await http.post("/v1/chat/completions", json=body(stream=True))
    assert traces(response) == []
    assert backend.requests[-1].trace is None


@pytest.mark.parametrize("route", ["own"], indirect=True)
async def test_other_keys_get_no_trace(gateway: str, key: str) -> None:
    asked = body(stream=True, stream_options={"toolgate_trace": True})
    async with http_client(gateway, headers=bearer(key)) as client:
        response = await client.post("/v1/chat/completions", json=asked)
    assert response.status_code == 403
    assert "master key" in response.json()["error"]["message"]
