"""The search that the gateway runs for chat completions, of which the client sees nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.litellm.own_route import CHAT, Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_core import wire
from toolgate_proxy.api.chat_completions.tools import NAME
from toolgate_proxy.litellm_host.deployments.selection import Selection
from toolgate_proxy.routing.prefix_hash import hash_request

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
ROOM = {"room": "4"}
HI = {"role": "user", "content": "Close the window."}
LATER = {"close_window": "Close a window of a room.", "open_door": "Open the door of a room."}
Json = dict[str, Any]


def function(name: str, text: str = "Look around.", **more: Any) -> Json:
    described = {"name": name, "description": text, "parameters": SCHEMA}
    return {"type": "function", "function": described, **more}


LOOK = function("look")
OTHERS = [function(name, text) for name, text in LATER.items()]
DEFERRED = [{**tool, "defer_loading": True} for tool in OTHERS]
SEARCHES: dict[str, tuple[Any, list[Json]]] = {
    "by the setting": (1, [LOOK, *OTHERS]),
    "by the setting, of tools that are deferred": (30, [LOOK, *DEFERRED]),
    "in OpenAI's form": ("off", [{"type": "tool_search"}, LOOK, *DEFERRED]),
    "in Anthropic's form": (
        "off",
        [{"type": "tool_search_tool_bm25_20251119", "name": "find"}, LOOK, *DEFERRED],
    ),
}


async def ask(gateway: Gateway, *turns: str, **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    body = {"model": "tiny", "messages": [HI], "tools": [LOOK, *OTHERS], **params}
    return await gateway.ask(body, path=CHAT)


@pytest.fixture
def searching(gateway: Gateway) -> Gateway:
    gateway.configure(tool_search=1)
    return gateway


def find(query: str) -> str:
    return call(NAME, {"query": query})


def message_of(response: Response) -> Json:
    """The message of a complete or streamed response."""
    assert response.status == 200, response.bodies
    if response.headers[b"content-type"] == b"application/json":
        message: Json = response.json["choices"][0]["message"]
        return message
    content, calls = "", {}
    for event in response.events:
        for choice in event["choices"]:
            content += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls", ()):
                known = calls.setdefault(part["index"], {"arguments": ""})
                known |= {name: part[name] for name in ("id",) if name in part}
                known |= {"name": part["function"].get("name", known.get("name"))}
                known["arguments"] += part["function"].get("arguments", "")
    assert list(calls) == list(range(len(calls)))
    shown = [
        {"id": each.pop("id"), "type": "function", "function": each} for each in calls.values()
    ]
    return {"role": "assistant", "content": content or None, "tool_calls": shown}


def prompts(gateway: Gateway) -> list[wire.ChatPrompt]:
    found = [request.prompt for request in gateway.backend.requests]
    assert all(isinstance(prompt, wire.ChatPrompt) for prompt in found)
    return [prompt for prompt in found if isinstance(prompt, wire.ChatPrompt)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("setting", "tools"), SEARCHES.values(), ids=SEARCHES)
async def test_a_tool_is_found_and_called_in_one_response(
    gateway: Gateway, setting: Any, tools: list[Json], stream: bool
) -> None:
    gateway.configure(tool_search=setting)
    turns = "I search." + find("close window"), call("close_window", ROOM)
    response = await ask(gateway, *turns, tools=tools, stream=stream)
    message = message_of(response)
    assert message["content"] == "I search."
    (made,) = message["tool_calls"]
    assert (made["function"]["name"], json.loads(made["function"]["arguments"])) == (
        "close_window",
        ROOM,
    )
    assert NAME not in response.text
    assert gateway.backend.listed_tools() == ["look", NAME]
    assert gateway.backend.callable_tools() == ["look", NAME, "close_window"]
    first, second = prompts(gateway)
    assert second.messages[: len(first.messages)] == first.messages
    assert second.tools == first.tools
    assert second.messages[-1]["content"][0]["type"] == wire.TOOL_DEFINITIONS


async def test_the_prompts_of_later_turns_grow_only_at_their_end(searching: Gateway) -> None:
    history: list[Json] = [HI]
    before: tuple[Json, ...] = ()
    for name, query in (("close_window", "window"), ("look", ""), ("open_door", "door")):
        turns = [find(query)] if query else []
        message = message_of(await ask(searching, *turns, call(name, ROOM), messages=history))
        result = {"role": "tool", "content": "ok"}
        history += [message, {**result, "tool_call_id": message["tool_calls"][0]["id"]}]
        begun = prompts(searching)[-len(turns) - 1]
        assert begun.messages[: len(before)] == before
        before = begun.messages
    response = await ask(searching, "Done.", messages=history)
    assert message_of(response)["content"] == "Done."
    last = prompts(searching)[-1]
    assert last.messages[: len(before)] == before
    assert searching.backend.listed_tools() == ["look", NAME]
    assert searching.backend.callable_tools() == ["look", NAME, "close_window", "open_door"]
    searched = [each for each in last.messages if NAME in json.dumps(each.get("tool_calls", ""))]
    assert len(searched) == 2
    await ask(searching, "Done.", messages=history)
    assert prompts(searching)[-1].messages == last.messages


async def test_a_named_tool_is_found_at_the_end(searching: Gateway) -> None:
    choice = {"type": "function", "function": {"name": "open_door"}}
    message = message_of(await ask(searching, call("open_door", ROOM), tool_choice=choice))
    assert searching.backend.listed_tools() == ["look", NAME]
    named = prompts(searching)[-1].messages
    result = {"role": "tool", "content": "ok", "tool_call_id": message["tool_calls"][0]["id"]}
    await ask(searching, "Done.", messages=[HI, message, result])
    assert prompts(searching)[-1].messages[: len(named)] == named


async def test_a_call_that_is_required_is_one_that_the_client_sees(searching: Gateway) -> None:
    turns = find("nothing of it"), call("close_window", ROOM)
    response = await ask(searching, *turns, tool_choice="required")
    assert [each["function"]["name"] for each in message_of(response)["tool_calls"]] == [
        "close_window"
    ]
    plans = [request.enforcement for request in searching.backend.requests]
    assert [plan and plan.choice for plan in plans] == ["required", "required"]
    turns = *(find(f"door {at}") for at in range(9)), call("look", ROOM)
    await ask(searching, *turns, tool_choice="required")
    last = searching.backend.requests[-1].enforcement
    assert last is not None
    assert last.choice == "required"
    assert NAME not in searching.backend.callable_tools()


async def test_a_search_beside_a_call_is_not_shown(searching: Gateway) -> None:
    for stream in (False, True):
        turn = f"{find('door')}\n{call('look', ROOM)}"
        message = message_of(await ask(searching, turn, stream=stream))
        assert [each["function"]["name"] for each in message["tool_calls"]] == ["look"]


async def test_the_usage_is_that_of_all_rounds(searching: Gateway) -> None:
    response = await ask(searching, find("door"), "Nothing to do.")
    assert message_of(response) == {
        "role": "assistant",
        "content": "Nothing to do.",
        "refusal": None,
    }
    assert response.json["usage"]["prompt_tokens"] == 22
    assert response.json["choices"][0]["finish_reason"] == "stop"


async def test_a_cut_search_is_not_reported(searching: Gateway) -> None:
    response = await ask(searching, find("door"), max_tokens=20)
    choice = response.json["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "toolgate" not in choice
    assert "tool_calls" not in choice["message"]


@pytest.mark.parametrize(
    "params",
    [{"n": 2}, {"return_token_ids": True}, {"tools": [LOOK]}, {"tools": [*OTHERS, function(NAME)]}],
    ids=["choices", "token ids", "few tools", "a search of the client"],
)
async def test_requests_without_a_search_list_their_tools(searching: Gateway, params: Json) -> None:
    searching.backend.scripts["Close the window."] = Script(("Done.",))
    response = await ask(searching, "Done.", **params)
    assert response.status == 200, response.bodies
    given = params.get("tools", [LOOK, *OTHERS])
    assert searching.backend.listed_tools() == [tool["function"]["name"] for tool in given]


async def test_a_tool_that_is_never_deferred_is_listed(searching: Gateway) -> None:
    tools = [LOOK, OTHERS[0], {**OTHERS[1], "defer_loading": False}]
    await ask(searching, "Done.", tools=tools)
    assert searching.backend.listed_tools() == ["look", "open_door", NAME]


async def test_custom_tools_are_found(searching: Gateway) -> None:
    custom = {"type": "custom", "custom": {"name": "patch", "description": "Change a file."}}
    turns = find("file"), call("patch", {"input": "x"})
    message = message_of(await ask(searching, *turns, tools=[LOOK, custom]))
    assert message["tool_calls"][0]["custom"] == {"name": "patch", "input": "x"}


async def test_deployments_are_chosen_by_the_tools_that_the_prompt_lists(
    searching: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed, choose = [], Selection.choose

    def noting(selection: Selection, *given: Any) -> Any:
        hashed.append(hash_request(given[3]))
        return choose(selection, *given)

    monkeypatch.setattr(Selection, "choose", noting)
    long = {"role": "system", "content": "Be kind. " * 200}
    for tools in ([LOOK, *OTHERS], [LOOK, *OTHERS[:1]], [*OTHERS, LOOK]):
        await ask(searching, "Done.", messages=[long, HI], tools=tools)
    assert hashed[0] == hashed[1] is not None
    assert hashed[0] != hashed[2]
