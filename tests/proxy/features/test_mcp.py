"""MCP servers of LiteLLM: the gateway runs their tools inside a response."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, MORE, Ran, goes_on, same
from tests.support.effort import sampled
from tests.support.litellm.fallbacks import BROKEN
from tests.support.litellm.mcp import FAIL, LOOKUP, ODD, ran
from tests.support.litellm.own_route import PATHS
from tests.support.servers.mcp_shop import FLOOD, FLOODS
from tests.support.servers.script import call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.chat import tool_loop
from toolgate_proxy.chat.tool_calls import TOO_MANY
from toolgate_proxy.features.mcp import responses
from toolgate_proxy.features.mcp.responses import DENIED, SingleCall
from toolgate_proxy.features.mcp.servers import ListedTool, McpOutcome
from toolgate_proxy.kept_values import MemoryValues
from toolgate_proxy.sealing import OwnerSeal

ASKED = {"role": "user", "content": "Which record is it?"}
CALL, PAINT = call(LOOKUP, {"id": 7}), call("paint", {})
FOUND = "lookup found record 7."
SAID = "It is record 7."
URL = "litellm_proxy/mcp/shop"
SERVER = {"type": "url", "name": "records", "url": URL}
SET = {"type": "mcp_toolset", "mcp_server_name": "records"}
pytestmark = pytest.mark.usefixtures("calls")


def entry(**more):
    made = {"type": "mcp", "server_label": "shop", "server_url": URL, "require_approval": "never"}
    return {name: value for name, value in {**made, **more}.items() if value is not None}


def offer(api, *beside, **more):
    """The server, and tools beside it. `more`: other members of its entry."""
    if api == "messages":
        return {"mcp_servers": [SERVER], "tools": [SET | more, *beside]}
    return {"tools": [entry(**more), *beside]}


async def ask(gateway, api, *turns, **params):
    given = {"history": [ASKED], **offer(api), **params}
    return await kit.ask(gateway, api, *turns, **given)


THOUGHT = "<think>\nHm.\n</think>\n\n"
LOOKUPS = "\n".join(call(LOOKUP, {"id": number}) for number in (1, 2))
ROUNDS = (
    f"{THOUGHT}Let me look.\n{LOOKUPS}",
    call(FAIL, {"id": 3}),
    f"{THOUGHT}{call('web_search', {'query': 'paint'})}",
    f"Once more.\n{call(LOOKUP, {'id': 4})}",
    "It dries, says https://example.com/paint there.",
)
LOOPS = {
    "no call": (("Hello.",), "Hello.", [], 0),
    "a call": ((CALL, SAID), SAID, [LOOKUP], 0),
    "texts": ((f"Let me see.{CALL}", f"Again.{CALL}", SAID), f"Let me see.Again.{SAID}",
              [LOOKUP] * 2, 0),
    "then one of the client": ((CALL, f"{CALL}\n{PAINT}"), "", [LOOKUP] * 2, 1),
    "beside those of the client": (("\n".join((CALL, PAINT, CALL, PAINT)),), "", [LOOKUP] * 2, 2),
    "a tool that fails": ((call(FAIL, {"id": 1}), "It failed."), "It failed.", [FAIL], 0),
    "four rounds": (ROUNDS, "Let me look.Once more.It dries, says https://example.com/paint there.",
                    [LOOKUP, LOOKUP, FAIL, LOOKUP], 0),
}  # fmt: skip
"""What the model says in turn; the text, the tools of the server that run, and the number of calls
for the client that this makes."""
SEARCHES = {
    "chat": [],
    "responses": [{"type": "web_search"}],
    "messages": [{"type": "web_search_20250305", "name": "web_search"}],
}


@sampled("api, loop", PATHS, LOOPS, one_in=6)
async def test_a_stream_is_the_whole_response_and_the_next_turn_continues_its_prompt(
    gateway, calls, engine, api, loop
):
    turns, text, names, paints = LOOPS[loop]
    engine.pages = [{"title": "Paint", "url": "https://example.com/paint", "content": "Dries."}]
    given = [each for each in turns if api != "chat" or "web_search" not in each]
    tools = offer(api, kit.function(api, "paint"), *SEARCHES[api])
    reply = await same(gateway, api, *given, history=[ASKED], **tools)
    assert (reply.text.replace("\n", ""), [each.name for each in reply.ran]) == (text, names)
    for each in reply.ran:
        assert (each.failed, "closed" in each.result) == (each.name == FAIL, each.name == FAIL)
    assert len(ran(calls)) == 2 * names.count(LOOKUP)
    assert len(engine.queries) == 2 * len([each for each in given if "web_search" in each])
    assert reply.named == [("paint", {})] * paints
    assert len({each["id"] for each in reply.calls}) == paints
    ended, called = ENDS[api]
    assert reply.end == (called if paints else ended)
    if turns != ROUNDS and (api, loop) != (
        "chat",
        "texts",
    ):  # which can't be sent back as they were
        await goes_on(gateway, reply, [ASKED], **tools)
    if names:
        assert "provider_specific_fields" not in json.dumps(gateway.backend.messages())


ENDS = {
    "chat": ("stop", "tool_calls"),
    "responses": ("completed", "completed"),
    "messages": ("end_turn", "tool_use"),
}


@APIS
async def test_a_tool_runs_inside_the_response(gateway, calls, api):
    """The members of what only this API has."""
    reply = await ask(gateway, api, CALL, SAID)
    assert reply.ran == [Ran(LOOKUP, {"id": 7}, FOUND, False)]
    assert reply.listed == ([] if api == "messages" else [LOOKUP, FAIL, ODD])
    assert ran(calls) == [{"id": 7}]
    assert gateway.backend.messages()[-1]["content"] == FOUND
    assert gateway.backend.callable_tools() == [LOOKUP, FAIL]
    match api:
        case "chat":
            given = reply.parts[0]["provider_specific_fields"]
            [made], [result] = given["mcp_tool_calls"], given["mcp_call_results"]
            assert made["type"] == "function"
            assert result == {"tool_call_id": made["id"], "result": FOUND, "name": LOOKUP}
        case "responses":
            assert reply.kinds == ["mcp_list_tools", "mcp_call", "message"]
            listed, made, _ = reply.parts
            assert listed["server_label"] == made["server_label"] == "shop"
            assert (made["output"], made["error"], made["status"]) == (FOUND, None, "completed")
        case _:
            used, result, _ = reply.parts
            assert (used["type"], used["server_name"]) == ("mcp_tool_use", "records")
            assert used["id"].startswith("mcptoolu_")
            content = [{"type": "text", "text": FOUND}]
            assert result == {"type": "mcp_tool_result", "tool_use_id": used["id"],
                              "is_error": False, "content": content}  # fmt: skip


async def test_a_line_that_is_too_long_is_an_error_and_the_rest_is_not_read(gateway, calls):
    reply = await ask(gateway, "responses", call(LOOKUP, {"id": FLOODS}), SAID)
    [made] = reply.ran
    assert made.failed
    assert "more than 16,000,000 bytes" in made.result
    assert len(ran(calls)) < FLOOD // 2


async def test_events_of_a_call(gateway):
    """Of the Responses API, which has some of its own."""
    reply = await ask(gateway, "responses", CALL, SAID, stream=True)
    events = [each for each in reply.response.events if "mcp_" in each["type"]]
    kinds = [each["type"].removeprefix("response.") for each in events]
    assert [kind for kind in kinds if not kind.endswith("delta")] == [
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
    ]


@pytest.mark.parametrize("recalled", [False, True])
async def test_tools_are_listed_again_only_if_they_have_changed(gateway, recalled):
    first = await ask(gateway, "responses", CALL, SAID)
    before = {"history": [ASKED, *first.turn, MORE]}
    if recalled:
        before = {"history": [MORE], "previous_response_id": first.body["id"]}
    again = await ask(gateway, "responses", "That is all.", **before)
    assert again.kinds == ["message"]
    fewer = {"tools": [entry(allowed_tools=[LOOKUP])]}
    again = await ask(gateway, "responses", "That is all.", **fewer, **before)
    assert again.kinds == ["mcp_list_tools", "message"]


ALLOWED = [
    ("chat", offer("chat", allowed_tools=["lookup"])),
    ("responses", offer("responses", allowed_tools=["lookup"])),
    ("responses", offer("responses", allowed_tools={"tool_names": [LOOKUP]})),
    ("responses", offer("responses", allowed_tools={"read_only": True})),
    ("messages", offer("messages", configs={"fail": {"enabled": False}})),
    ("messages", offer("messages", default_config={"enabled": False},
                       configs={LOOKUP: {"enabled": True}})),
    ("messages", {"tools": [], "mcp_servers": [
        SERVER | {"tool_configuration": {"allowed_tools": ["lookup"]}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "offered"), ALLOWED)
async def test_only_allowed_tools_are_offered(gateway, api, offered):
    reply = await ask(gateway, api, "Hello.", **offered)
    assert reply.listed == ([] if api == "messages" else [LOOKUP])
    assert gateway.backend.callable_tools() == [LOOKUP]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "litellm_proxy/mcp/nothing"])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_server_that_can_not_be_used_is_left_out(gateway, api, url):
    """Nothing asks a server of the client. That one does not exist is an error in its list."""
    reply = await ask(gateway, api, "Hello.", **offer(api, server_url=url))
    if api == "responses" and "nothing" in url:
        assert reply.parts[0]["tools"] == []
        assert reply.parts[0]["error"]
    else:
        assert "mcp" in reply.own["x-toolgate-omitted-tools"]
        assert len(reply.parts) == 1
        assert "provider_specific_fields" not in reply.parts[0]


async def test_deferred_tools_are_found(gateway, calls):
    name = "tool_search_tool_bm25"
    offered = offer("messages", default_config={"defer_loading": True})
    offered["tools"].insert(0, {"type": f"{name}_20251119", "name": name})
    turns = call(name, {"query": "look up a record"}), CALL, SAID
    reply = await same(gateway, "messages", *turns, history=[ASKED], **offered)
    assert gateway.backend.listed_tools(0) == [name]
    found = ["server_tool_use", "tool_search_tool_result"]
    assert reply.kinds == [*found, "mcp_tool_use", "mcp_tool_result", "text"]
    assert ran(calls) == [{"id": 7}] * 2


@pytest.mark.parametrize("approval", [None, "always", {"never": {"tool_names": ["lookup"]}}])
async def test_calls_that_need_an_approval_go_to_the_client_of_chat_completions(
    gateway, calls, approval
):
    """As in LiteLLM."""
    offered = offer("chat", require_approval=approval)
    reply = await ask(gateway, "chat", CALL, **offered)
    assert (reply.named, reply.end) == ([(LOOKUP, {"id": 7})], "tool_calls")
    assert [*reply.parts[0]["provider_specific_fields"]] == ["mcp_list_tools"]
    assert ran(calls) == []
    await goes_on(gateway, reply, [ASKED], **offered)
    assert gateway.backend.messages()[-1]["content"] == "done"


async def test_one_server_with_approvals_is_enough(gateway, calls):
    always = entry(require_approval="always", allowed_tools=["fail"])
    reply = await ask(gateway, "chat", CALL, **offer("chat", always, allowed_tools=["lookup"]))
    assert reply.end == "tool_calls"
    assert ran(calls) == []


def approving(approval="always"):
    return offer("responses", require_approval=approval)


def answered(asked, *, approve=True, **more):
    given = {"approval_request_id": asked, "approve": approve, **more}
    return {"type": "mcp_approval_response", **given}


@pytest.mark.parametrize("approval", [None, "always", {"never": {"tool_names": ["fail"]}}])
async def test_a_call_waits_for_an_approval(gateway, calls, approval):
    offered = approving(approval)
    first = await same(gateway, "responses", CALL, history=[ASKED], **offered)
    assert first.kinds == ["mcp_list_tools", "mcp_approval_request"]
    asked = first.parts[1]
    assert (asked["name"], json.loads(asked["arguments"])) == (LOOKUP, {"id": 7})
    assert ran(calls) == []
    history = [ASKED, *first.turn, answered(asked["id"])]
    second = await ask(gateway, "responses", "It is.", **offered, history=history)
    assert second.kinds == ["mcp_call", "message"]
    assert second.parts[0]["approval_request_id"] == asked["id"]
    assert second.ran == [Ran(LOOKUP, {"id": 7}, FOUND, False)]
    assert gateway.backend.messages()[-1]["content"] == FOUND
    third = await ask(
        gateway, "responses", "All.", **offered, history=[*history, *second.turn, MORE]
    )
    assert third.status == 200, third.response.bodies
    assert ran(calls) == [{"id": 7}]
    contents = [message["content"] for message in gateway.backend.messages()]
    assert contents.count(FOUND) == 1


def approved(*ids):
    asked = {"type": "mcp_approval_request", "name": LOOKUP, "arguments": '{"id": 7}'}
    asked["server_label"] = "shop"
    return [ASKED, *({**asked, "id": each} for each in ids), *map(answered, ids)]


async def test_an_approved_call_runs_once_for_its_owner_if_the_request_is_repeated(gateway, calls):
    for runs, owner in enumerate(("sk-1", "sk-2"), 1):
        gateway.add_key(owner, key_of(owner, mcp_servers=("shop",)))
        for turn in (BROKEN, BROKEN, "It is."):
            given = {"history": approved("mcpr_1"), "key": owner, **approving(None)}
            reply = await ask(gateway, "responses", turn, **given)
            assert reply.status == (502 if turn is BROKEN else 200), reply.response.bodies
            assert ran(calls) == [{"id": 7}] * runs
        assert reply.ran[0].result == FOUND


@pytest.mark.parametrize(("bound", "most"), [(2, {"max_tool_calls": 1}), (1, {})])
async def test_approved_calls_are_bounded(gateway, calls, monkeypatch, bound, most):
    monkeypatch.setattr(tool_loop, "MAX_APPROVED", bound)
    given = {"history": approved("a", "b"), **approving(None), **most}
    reply = await ask(gateway, "responses", "It is.", **given)
    assert [each.result for each in reply.ran] == [FOUND, TOO_MANY]
    assert ran(calls) == [{"id": 7}]


async def test_an_approved_call_goes_on_without_its_client(gateway, monkeypatch):
    """Further requests wait for it, but not for ever."""
    called = []

    async def pay(name, seconds):
        called.append(name)
        await asyncio.sleep(float(seconds))
        return McpOutcome(output="paid")

    monkeypatch.setattr(responses, "PAUSE", 0.001)
    servers = SimpleNamespace(call=pay)
    once = SingleCall(servers, "mcpr_1", OwnerSeal(gateway.here.sealer, "me"), MemoryValues())
    for seconds, outcome in (("0.05", McpOutcome(output="paid")), ("9", responses.BEGUN)):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(once.call("pay", seconds), 0.01)
        assert await once.call("pay", seconds) == outcome
    assert len(called) == 2


async def test_a_call_that_is_not_approved_does_not_run(gateway, calls):
    """Nor does one that differs from the call of the request for approval."""
    first = await ask(gateway, "responses", CALL, **approving())
    listed, asked = first.parts
    answer = answered(asked["id"], approve=False, reason="Too expensive.")
    history = [ASKED, listed, asked, answer]
    reply = await ask(gateway, "responses", "Pity.", **approving(), history=history)
    assert reply.text == "Pity."
    assert gateway.backend.messages()[-1]["content"] == f"{DENIED} Too expensive."
    for changes in ({"arguments": '{"id": "x"}'}, {"name": "shop-other"}, {"id": "other"}):
        history = [ASKED, listed, asked | changes, answered(asked["id"])]
        refused = await ask(gateway, "responses", "No.", **approving(), history=history)
        assert refused.status == 400, changes
    assert ran(calls) == []


def test_a_tool_is_called_by_its_whole_name_only():
    names = ["act", "force", "force-act", "shop-act", "shop-force-act", "-force-act", "", None]
    tool = ListedTool("shop-force-act", "", {}, own_names=("force-act",))
    assert [name for name in names if tool.is_called(name)] == ["force-act", "shop-force-act"]
