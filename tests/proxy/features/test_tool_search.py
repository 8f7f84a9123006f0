"""Tools that are found in a conversation: by a search that the gateway runs inside one response, of
which clients of chat completions see nothing, or by one of the client's own."""

import json

import pytest

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, function, goes_on, required, same
from tests.support.apis.found_tools import SEARCH, with_search
from tests.support.effort import rotating
from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.script import Script, call
from toolgate_core import wire
from toolgate_proxy.api.reader import ApiReader
from toolgate_proxy.api.shared.tools import MAX_LOADED, MAX_TOOLS
from toolgate_proxy.features.tool_search.chat import NAME
from toolgate_proxy.litellm_host.routing.selection import Selection
from toolgate_proxy.routing.prefix_affinity import hash_request
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
ROOM = {"room": "4"}
ASKED = {"role": "user", "content": "Close the window."}
LATER = {"close_window": "Close a window of a room.", "open_door": "Open the door of a room."}
BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
NAMES = {"chat": NAME, "responses": "tool_search", "messages": BM25["name"]}
SEARCHES = {"chat": {"type": "tool_search"}, "responses": {"type": "tool_search"}, "messages": BM25}
FOUND = {
    "chat": [],
    "responses": ["tool_search_call", "tool_search_output"],
    "messages": ["server_tool_use", "tool_search_tool_result"],
}
"""What a response has of a search."""
TEXT = {"responses": "message", "messages": "text"}
HOSTED = pytest.mark.parametrize("api", [*TEXT])


def tools(api, **more):
    """One that the prompt lists, and two others."""
    look = function(api, "look", SCHEMA, description="Look around.")
    return [look, *(function(api, n, SCHEMA, description=d, **more) for n, d in LATER.items())]


def offer(api):
    return [SEARCHES[api], *tools(api, defer_loading=True)]


def find(api, query):
    return call(NAMES[api], {"query": query})


async def ask(gateway, api, *turns, **params):
    given = {"history": [ASKED], "tools": offer(api), **params}
    return await kit.ask(gateway, api, *turns, **given)


def prompts(gateway):
    found = [request.prompt for request in gateway.backend.requests]
    assert all(isinstance(prompt, wire.ChatPrompt) for prompt in found)
    return [prompt for prompt in found if isinstance(prompt, wire.ChatPrompt)]


CHAT = "chat"
FORMS = {
    **{api: (api, "off", offer(api)) for api in PATHS},
    "in Anthropic's form": (CHAT, "off", [BM25 | {"name": "find"}, *offer(CHAT)[1:]]),
    "by the setting": (CHAT, 1, tools(CHAT)),
    "by the setting, of tools that are deferred": (CHAT, 30, tools(CHAT, defer_loading=True)),
}


@pytest.mark.parametrize(("api", "setting", "offered"), FORMS.values(), ids=FORMS)
async def test_a_tool_is_found_and_called_in_one_response(gateway, api, setting, offered):
    """A stream is the same, and the next turn continues the prompt."""
    gateway.configure(tool_search=setting)
    turns = "I search." + find(api, "close window"), call("close_window", ROOM)
    reply = await same(gateway, api, *turns, history=[ASKED], tools=offered)
    assert (reply.text, reply.named) == ("I search.", [("close_window", ROOM)])
    if api == "chat":
        assert NAME not in json.dumps(reply.body)
    else:
        assert reply.kinds == [TEXT[api], *FOUND[api], reply.kinds[-1]]
        _, asked, result, _ = reply.parts
        assert asked["arguments" if api == "responses" else "input"] == {"query": "close window"}
        if api == "responses":
            assert (asked["execution"], result["execution"]) == ("server", "server")
            assert asked["call_id"] == result["call_id"]
            assert [tool["name"] for tool in result["tools"]] == ["close_window"]
        else:
            assert asked["id"].startswith("srvtoolu_")
            assert result["tool_use_id"] == asked["id"]
            reference = {"type": "tool_reference", "tool_name": "close_window"}
            assert result["content"]["tool_references"] == [reference]
    names = [*gateway.backend.listed_tools(0)]
    assert sorted(names) == sorted(["look", NAMES[api]])
    assert gateway.backend.callable_tools() == [*names, "close_window"]
    first, second = gateway.backend.requests
    assert first.request_id != second.request_id
    before, after = prompts(gateway)
    assert after.tools == before.tools
    assert after.messages[: len(before.messages)] == before.messages
    assert after.messages[-1]["content"][0]["type"] == wire.TOOL_DEFINITIONS
    if api != "chat":  # whose message has the texts of all rounds in one
        await goes_on(gateway, reply, [ASKED], tools=offered)
        last = prompts(gateway)[-1]
        assert (len(last.messages), last.tools) == (len(after.messages) + 2, after.tools)


@APIS
async def test_several_searches_in_a_turn(gateway, api):
    """One finds nothing. The usage is that of all rounds."""
    turn = f"{find(api, 'door')}\n{find(api, 'submarine')}"
    reply = await same(gateway, api, turn, "Nothing.", history=[ASKED], tools=offer(api))
    assert reply.text == "Nothing."
    assert api == "chat" or sorted(reply.kinds) == sorted([*FOUND[api] * 2, TEXT[api]])
    assert "No tool was found" in gateway.backend.messages()[-1]["content"]
    assert "open_door" in gateway.backend.callable_tools()
    assert "close_window" not in gateway.backend.callable_tools()
    context, usage = reply.response.context, reply.body["usage"]
    output = usage["completion_tokens" if api == "chat" else "output_tokens"]
    assert (context.meter.prompt_tokens, context.meter.completion_tokens) == (22, output)
    match api:
        case "chat":
            assert (usage["prompt_tokens"], reply.end) == (22, "stop")
        case "responses":
            assert usage["input_tokens_details"]["cached_tokens"] == 6
            assert (usage["input_tokens"], reply.end) == (22, "completed")
        case _:
            assert (usage["cache_read_input_tokens"], usage["input_tokens"]) == (6, 22 - 6)
            assert reply.end == "end_turn"


@APIS
async def test_a_search_beside_a_call_for_the_client_ends_the_turn(gateway, api):
    turn = f"{find(api, 'door')}\n{call('look', ROOM)}"
    reply = await same(gateway, api, turn, history=[ASKED], tools=offer(api))
    assert reply.named == [("look", ROOM)]
    assert len(gateway.backend.requests) == 1
    if api != "chat":
        searched, result = FOUND[api]
        assert (reply.kinds[0], reply.kinds[2:]) == (searched, [result])


@APIS
async def test_searches_without_an_end_are_ended(gateway, api):
    turns = [find(api, f"door {at}") for at in range(9)]
    reply = await ask(gateway, api, *turns, call("look", ROOM), tool_choice=required(api))
    assert reply.named == [("look", ROOM)]
    plans = [request.enforcement for request in gateway.backend.requests]
    choices = [plan and plan.choice for plan in plans]
    # A client of chat completions does not see the searches as calls.
    assert choices == ["required"] * 10 if api == "chat" else choices[0] == "required"
    assert gateway.backend.callable_tools() == ["look", "open_door"]


@APIS
async def test_the_tokens_of_all_rounds_are_bounded(gateway, api):
    """A search that they cut is no call of the client."""
    most = "max_output_tokens" if api == "responses" else "max_tokens"
    reply = await ask(gateway, api, find(api, "door"), "Nothing.", **{most: 60})
    assert reply.text == "Nothing."
    first, second = (request.sampling.max_tokens for request in gateway.backend.requests)
    assert first == 60
    assert second is not None
    assert 0 < second < 60
    assert reply.response.context.meter.completion_tokens <= 60
    for bound, kinds in ((60 - second, FOUND.get(api)), (18, None)):
        cut = await ask(gateway, api, find(api, "door"), **{most: bound})
        assert cut.end == {"chat": "length", "responses": "incomplete"}.get(api, "max_tokens")
        assert cut.calls == []
        assert api == "chat" or kinds is None or cut.kinds == kinds
        assert "toolgate" not in cut.body.get("choices", [{}])[0]


@HOSTED
async def test_a_named_search_is_forced_once(gateway, api):
    named = {"type": "tool_search"} if api == "responses" else {"type": "tool", "name": NAMES[api]}
    reply = await ask(gateway, api, find(api, "door"), "Done.", tool_choice=named)
    assert reply.text == "Done."
    plans = [request.enforcement for request in gateway.backend.requests]
    assert [plan and plan.choice for plan in plans] == ["required", "auto"]


async def test_an_unreadable_pattern_is_an_error_that_the_model_sees(gateway):
    name = "tool_search_tool_regex"
    turns = call(name, {"query": "("}), call(name, {"query": "(?i)^OPEN"}), call("open_door", ROOM)
    offered = [{"type": f"{name}_20251119", "name": name}, *offer("messages")[1:]]
    reply = await ask(gateway, "messages", *turns, tools=offered)
    failed, found = (
        each["content"] for each in reply.parts if each["type"] == "tool_search_tool_result"
    )
    assert failed["type"] == "tool_search_tool_result_error"
    assert failed["error_code"] == "invalid_tool_input"
    assert found["tool_references"] == [{"type": "tool_reference", "tool_name": "open_door"}]
    await goes_on(gateway, reply, [ASKED], tools=offered)


async def test_a_last_message_of_the_assistant_is_refused(gateway):
    history = [ASKED, {"role": "assistant", "content": "I will"}]
    refused = await ask(gateway, "messages", history=history)
    assert refused.status == 400
    assert "last message" in refused.error["message"]


@pytest.fixture
def searching(gateway):
    """A gateway that searches the tools of chat completions."""
    gateway.configure(tool_search=1)
    return gateway


async def chat(gateway, *turns, **params):
    return await ask(gateway, "chat", *turns, **{"tools": tools("chat"), **params})


async def test_the_prompts_of_later_turns_grow_only_at_their_end(searching):
    history = [ASKED]
    before = ()
    for name, query in (("close_window", "window"), ("look", ""), ("open_door", "door")):
        turns = [find("chat", query)] if query else []
        reply = await chat(searching, *turns, call(name, ROOM), history=history)
        history += [*reply.turn, *kit.results("chat", reply)]
        begun = prompts(searching)[-len(turns) - 1]
        assert begun.messages[: len(before)] == before
        before = begun.messages
    for _ in range(2):
        reply = await chat(searching, "Done.", history=history)
        assert reply.text == "Done."
        last = prompts(searching)[-1]
        assert last.messages[: len(before)] == before
        before = last.messages
    assert searching.backend.listed_tools() == ["look", NAME]
    assert searching.backend.callable_tools() == ["look", NAME, "close_window", "open_door"]
    searched = [each for each in last.messages if NAME in json.dumps(each.get("tool_calls", ""))]
    assert len(searched) == 2


async def test_a_named_tool_is_found_at_the_end(searching):
    choice = {"type": "function", "function": {"name": "open_door"}}
    reply = await chat(searching, call("open_door", ROOM), tool_choice=choice)
    assert searching.backend.listed_tools() == ["look", NAME]
    await goes_on(searching, reply, [ASKED], tools=tools("chat"))


LOOK, CLOSE, OPEN = tools(CHAT)
PLAIN = {
    "choices": ({"n": 2}, ["look", *LATER]),
    "token ids": ({"return_token_ids": True}, ["look", *LATER]),
    "few tools": ({"tools": [LOOK]}, ["look"]),
    "a search of the client": ({"tools": [CLOSE, OPEN, function(CHAT, NAME)]}, [*LATER, NAME]),
    "a tool that is never deferred": (
        {"tools": [LOOK, CLOSE, OPEN | {"defer_loading": False}]}, ["look", "open_door", NAME]),
}  # fmt: skip


@pytest.mark.parametrize(("params", "listed"), PLAIN.values(), ids=PLAIN)
async def test_tools_that_the_prompt_lists(searching, params, listed):
    searching.backend.scripts[str(ASKED["content"])] = Script(("Done.",))
    assert (await chat(searching, **params)).status == 200
    assert searching.backend.listed_tools() == listed


async def test_custom_tools_are_found(searching):
    custom = {"type": "custom", "custom": {"name": "patch", "description": "Change a file."}}
    turns = find("chat", "file"), call("patch", {"input": "x"})
    response = await kit.ask(searching, "chat", *turns, history=[ASKED], tools=[LOOK, custom])
    [made] = response.parts[0]["tool_calls"]
    assert made["custom"] == {"name": "patch", "input": "x"}


async def test_deployments_are_chosen_by_the_tools_that_the_prompt_lists(searching, monkeypatch):
    hashed, choose = [], Selection.choose

    def noting(selection, *given):
        hashed.append(hash_request(given[3]))
        return choose(selection, *given)

    monkeypatch.setattr(Selection, "choose", noting)
    long = {"role": "system", "content": "Be kind. " * 200}
    for offered in ([LOOK, CLOSE, OPEN], [LOOK, CLOSE], [CLOSE, OPEN, LOOK]):
        await chat(searching, "Done.", history=[long, ASKED], tools=offered)
    assert hashed[0] == hashed[1] is not None
    assert hashed[0] != hashed[2]


@APIS
async def test_a_tool_that_the_client_found_is_enforced_and_others_reach_no_backend(gateway, api):
    def tool(name):
        return Tool(name=name, description="Does it.", parameters=SCHEMA)

    offered = [function(api, name, SCHEMA, description="Does it.") for name in (SEARCH, "close")]
    body = body_of(api, tools=offered, tool_choice=required(api))
    gateway.backend.turns = [Script((call("close", ROOM),))]
    sent_body = with_search(Api(api), body, [tool("open")])
    reply = kit.read(api, await gateway.ask(sent_body, path=PATHS[api]))
    assert reply.named == [("close", ROOM)]
    [sent] = gateway.backend.requests
    assert gateway.backend.callable_tools() == [SEARCH, "close"]
    assert gateway.backend.listed_tools() == [SEARCH]
    [part] = prompts(gateway)[0].messages[-1]["content"]
    assert part["type"] == wire.TOOL_DEFINITIONS
    assert [each["function"]["name"] for each in part["tools"]] == ["close"]
    assert '"open"' not in sent.model_dump_json()
    assert "open" not in {source.name for source in gateway.backend.sources}


def many(api, count):
    """The search and so many deferred tools."""
    later = {"description": "Does it.", "defer_loading": True}
    return [SEARCHES[api], *(function(api, f"tool_{at}", SCHEMA, **later) for at in range(count))]


@rotating("stream", [False, True], one_in=2)
async def test_a_stored_response_has_all_tools(gateway, stream):
    path = PATHS["responses"]
    body = body_of("responses", tools=many("responses", 1_000), stream=stream)
    for _ in range(2):
        response = await gateway.ask(body, path=path)
        sent = response.events[-1]["response"] if stream else response.json
        assert len(sent["tools"]) == 1_001
        assert (await gateway.ask(b"", path=f"{path}/{sent['id']}", method="GET")).json == sent


@pytest.mark.parametrize("api", PATHS)
async def test_too_many_tools_that_are_not_deferred_are_refused_before_they_are_read(
    gateway, api, monkeypatch
):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(ApiReader, "taken", never)
    tools = [function(api, f"tool_{at}", SCHEMA, description="d") for at in range(MAX_LOADED + 1)]
    refused = await kit.ask(gateway, api, tools=tools)
    assert refused.status == 400
    assert "1,001 tools without 'defer_loading'" in refused.error["message"]


@rotating("api", PATHS, one_in=3)
async def test_one_tool_more_than_allowed_is_refused(gateway, api):
    refused = await kit.ask(gateway, api, tools=many(api, MAX_TOOLS))
    assert refused.status == 400
    assert "'tools' has 10,002 entries, but at most 10,001" in refused.error["message"]
