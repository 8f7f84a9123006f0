"""Requests that are refused: which parameter an error names, by which words, and
`TOOLGATE_INVALID_TOOLS`."""

import asyncio
import json
import re

import pytest

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, CONVERSATION, REFUSALS, function, required
from tests.proxy.validation.test_service import TREE
from tests.support.litellm.own_route import PATHS, TICK, Response, body_of
from tests.support.schemas.hostile import endless_validation
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import ContextLengthExceeded


@pytest.mark.usefixtures("calls", "engine")
@pytest.mark.parametrize("group", ["mcp", "web", "compaction"])
async def test_a_refusal_names_its_parameter(gateway, group):
    gateway.configure(web_fetch=("example.com",))
    for api, members, param in REFUSALS[group]:
        refused = await kit.ask(gateway, api, **members)
        if members.get("stream"):
            assert refused.error["param"] == param
        else:
            assert refused.refusal == (400, param)
    assert not gateway.backend.requests


async def test_an_error_names_the_place_of_half_of_a_surrogate_pair(gateway):
    for api, body, param, pointer in REFUSALS["halves"]:
        refused = kit.read(api, await gateway.ask(body.encode(), path=PATHS[api]))
        assert refused.refusal == (400, param)
        assert r"half of a surrogate pair (\ud83d" in refused.error["message"]
        assert pointer in refused.error["message"]


TOO_LONG = ContextLengthExceeded.of_tokens(4096)
NO_ROOM = ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens")


@pytest.mark.parametrize("error", [TOO_LONG, NO_ROOM], ids=["too long", "no room"])
@pytest.mark.parametrize("case", REFUSALS["context_length"], ids=[*CONVERSATION])
async def test_clients_recognize_an_error_about_the_context_length(gateway, case, error):
    """Whether it has a status or comes after a keep-alive."""
    beside = "words_if_too_long" if error is TOO_LONG else "words_without_room"
    words = case["words"] | case.get(beside, {})
    for queued in (0, TICK * 4):
        turn = Script((), error_status=400, error=error.body()["error"], queued=queued)
        reply = await kit.ask(gateway, case["api"], turn, stream=bool(queued))
        if queued:
            shown = [event["error"] for event in reply.response.events if "error" in event]
        else:
            param = case["too_long" if error is TOO_LONG else "no_room"]
            assert reply.refusal == (400, param)
            assert reply.error["type"] == "invalid_request_error"
            assert reply.error["context_length"] == 4096
            shown = [reply.error]
        assert shown
        for each in shown:
            assert each["code"] == error.code
            missed = [n for n, form in words.items() if not re.search(form, each["message"], re.I)]
            assert not missed, each


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
REFUSED = {"type": "object", "not": {"required": ["b"]}}
REMOTE = {"type": "object", "properties": {"c/ü": {"$ref": "https://example.com/x"}}}
HOSTED = {"type": "web_search_20250305", "name": "web_search"}
SCHEMAS = {"good": SCHEMA, "two words": SCHEMA, "remote": REMOTE, "refused_one": REFUSED}
INVALID = [("remote", "/properties/c~1ü/$ref"), ("refused_one", "/not")]
"""One that the gateway finds invalid, and one that the backend refuses: the names, and the places
in their schemas."""
REFUSAL = (400, "schema_not_enforceable")


async def ask(gateway, api, *tools, **params):
    """`tools`: names of the schemas, or entries."""
    offered = [function(api, e, SCHEMAS[e]) if isinstance(e, str) else e for e in tools]
    return await kit.ask(gateway, api, said="hi", tools=offered, **params)


@pytest.fixture
def omitting(gateway):
    gateway.configure(invalid_tools="omit")
    return gateway


@APIS
async def test_invalid_tools_are_refused_by_default(gateway, api):
    """With their places beside hosted tools."""
    place = {"chat": "function.parameters", "messages": "input_schema"}.get(api, "parameters")
    for name, _ in INVALID:
        refused = await ask(gateway, api, "good", name)
        assert refused.status == 400
        assert refused.error["param"].startswith("tools[1].")
    refused = await ask(gateway, api, HOSTED, "good", "refused_one")
    assert refused.failure == REFUSAL
    assert (refused.error["pointer"], refused.error["param"]) == ("/not", f"tools[2].{place}")


@APIS
async def test_invalid_tools_are_left_out(omitting, api):
    reply = await ask(omitting, api, HOSTED, "two words", "remote", "refused_one", "good")
    assert reply.text == "Hello there"
    assert omitting.backend.listed_tools() == ["good"]
    assert reply.own["x-toolgate-omitted-tools"] == "web_search_20250305"
    assert reply.own["x-toolgate-invalid-tools"] == (
        "tools[1], remote; at=/properties/c~1%C3%BC/$ref, refused_one; at=/not"
    )
    if api == "responses":
        assert "good" in [each.get("name") for each in reply.body["tools"]]
        assert "remote" not in [each.get("name") for each in reply.body["tools"]]
    alone = await ask(omitting, api, "refused_one")
    assert alone.text == "Hello there"
    assert omitting.backend.listed_tools() == []


@APIS
async def test_an_error_names_all_tools_that_were_left_out(omitting, api):
    """A required call needs a valid one."""
    given = {"tool_choice": required(api)}
    for name, pointer in INVALID:
        alone = await ask(omitting, api, name, **given)
        assert (*alone.failure, alone.error["pointer"]) == (*REFUSAL, pointer)
        assert f"'{name}' is invalid: " in alone.error["message"]
        refused = await ask(omitting, api, HOSTED, "two words", name, **given)
        assert refused.status == 400
        for part in ("'web_search_20250305' is a hosted tool", "'tools[1]'", f"'{name}'"):
            assert part in refused.error["message"]
    assert (await ask(omitting, api, HOSTED, **given)).refusal == (400, "tools")


async def test_a_choice_of_an_invalid_tool_is_refused(omitting):
    """Allowed tools may contain one."""
    for name, _ in INVALID:
        named = {"type": "function", "function": {"name": name}}
        good = {"type": "function", "function": {"name": "good"}}
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}
        for choice, tools in ((named, None), (allowed, [named]), (allowed, [named, good])):
            if tools:
                choice["allowed_tools"]["tools"] = tools
            reply = await ask(omitting, "chat", "good", name, tool_choice=choice)
            if tools and good in tools:
                assert reply.status == 200
                assert omitting.backend.callable_tools() == ["good"]
            else:
                assert reply.failure == REFUSAL


async def test_tools_that_are_left_out_are_not_counted(omitting):
    async def counted():
        path = f"{PATHS['messages']}/count_tokens"
        assert (await ask(omitting, "messages", "good", "refused_one", path=path)).status == 200
        prompt = omitting.backend.counts[-1].prompt
        return [each["function"]["name"] for each in prompt.tools]

    assert await counted() == ["good"]
    omitting.configure(invalid_tools="refuse")
    assert await counted() == ["good", "refused_one"]  # a request for a response is refused


async def test_a_response_format_is_never_left_out(omitting):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}
    assert (await ask(omitting, "chat", response_format=form)).failure == REFUSAL


@APIS
async def test_corrected_slips_are_in_a_header(gateway, api):
    slips = {"type": "OBJECT", "properties": {"a": {"type": "string", "required": True}}}
    reply = await ask(gateway, api, "good", function(api, "slips", slips))
    assert reply.own["x-toolgate-corrected"] == "1; keywords=required,type"
    prompt = gateway.backend.requests[-1].prompt
    assert prompt.tools[1]["function"]["parameters"] == SCHEMA
    again = await ask(gateway, api, "good", "good")
    assert "x-toolgate-corrected" not in again.own
    assert gateway.backend.listed_tools() == ["good"]


# --- hostile tools: a fast 400 with its reason, and no harm to other keys -------------------------

FLOOD = 40
"""Calls whose validation takes all the processor time that it may have, a second."""


def nested(levels):
    return '{"type":"object","properties":{"a":' * levels + "{}" + "}}" * levels


def of(schema):
    return f'{{"type":"object","properties":{{"a":{schema}}}}}'


HOSTILE = {
    "40 objects deep": (nested(40), "schema_too_complex"),
    "20,000 levels": (nested(10_000), "invalid"),
    "6,000 properties": (
        json.dumps({"type": "object", "properties": {f"p{at}": {} for at in range(6_000)}}),
        "schema_too_complex",
    ),
    "a pattern of 1.2 MB": (of(json.dumps({"pattern": "x" * 1_200_000})), "schema_too_complex"),
    "60,000 values": (of(json.dumps({"x-data": [0] * 60_000})), "schema_too_complex"),
    "a remote reference": (of('{"$ref":"https://example.com/schema"}'), "schema_not_enforceable"),
    "a lone surrogate": ('{"type":"object","properties":{"\\ud800":{}}}', "invalid"),
    "NaN": (of('{"maximum":NaN}'), "invalid"),
    "a huge number": (of('{"maximum":1e999}'), "invalid"),
}
ALLOWED = (of('{"$ref":"#"}'), nested(15), '{"type":"object"}')


async def offer(gateway, parameters):
    tool = {"type": "function", "function": {"name": "t", "parameters": "HERE"}}
    body = json.dumps(body_of("chat", tools=[tool])).replace('"HERE"', parameters)
    return await gateway.ask(body.encode())


async def test_a_hostile_schema_is_a_400_with_its_reason(gateway):
    for name, (parameters, code) in HOSTILE.items():
        answer = await offer(gateway, parameters)
        assert answer.status == 400, name
        error = answer.json["error"]
        assert error["code"].startswith(code), (name, error)
        if code != "invalid":
            assert error["param"] == "tools[0].function.parameters"
            assert "pointer" in error
        assert len(b"".join(answer.bodies)) < 2_000
        assert not gateway.backend.loads


async def test_large_and_recursive_schemas_reach_the_backend(gateway):
    for parameters in ALLOWED:
        gateway.backend.forget()
        gateway.backend.loads.clear()
        assert (await offer(gateway, parameters)).status == 200
        assert gateway.backend.loads == [("t",)]


@pytest.mark.timed
async def test_a_key_with_endless_schemas_leaves_a_worker_to_others(gateway):
    keys = [key_of(f"sk-{name}") for name in ("hostile", "other")]
    gateway.here.key_sync.key_cache.replace([], keys)
    schema, arguments = endless_validation()
    gateway.backend.scripts |= {
        "endless": Script((call("endless", arguments),)),
        "tree": Script((call("tree", {"root": {"n": 1}}),)),
    }
    endless = body_of("chat", "endless", tools=[function("chat", "endless", schema)])
    tree = body_of("chat", "tree", tools=[function("chat", "tree", TREE)])
    attack = [
        asyncio.create_task(gateway.ask(endless, key="sk-hostile", within=120))
        for _ in range(FLOOD)
    ]
    try:
        await asyncio.sleep(1)
        for _ in range(2):
            answer = await gateway.ask(tree, key="sk-other", within=60)
            assert answer.status == 200, answer.bodies
            (made,) = answer.json["choices"][0]["message"]["tool_calls"]
            assert json.loads(made["function"]["arguments"]) == {"root": {"n": 1}}
        assert not all(task.done() for task in attack)
    finally:
        for task in attack:
            task.cancel()
        ended = await asyncio.gather(*attack, return_exceptions=True)
    assert not [each for each in ended if isinstance(each, Response) and each.status == 200]
