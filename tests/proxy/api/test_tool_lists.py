"""Which tools of a request are offered: those that a provider would run, deferred ones, those that
the conversation adds. A prompt in which tools are found grows only at its end."""

import copy
import json
import math
from typing import get_args

import jinja2
import jsonschema_rs
import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command, BetaToolUnionParam
from openai.types.responses import ToolParam

from tests.support.apis.value_examples import tool_types
from toolgate_backend.endpoint.histories import AddedTools
from toolgate_core.custom_tools import Grammar, grammar_of
from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_proxy.api.shared import tools as shared_tools
from toolgate_proxy.api.shared.tools import HostedTools, ReadToolCache
from toolgate_proxy.chat.invalid_tools import without
from toolgate_proxy.chat.preparation import chat_prompt
from toolgate_proxy.context import Notes
from toolgate_proxy.features.client_tools.builtin import OFFERED
from toolgate_proxy.features.client_tools.messages import TABLE, TOOLSETS
from toolgate_proxy.features.client_tools.responses import BUILTIN_TOOLS, BY_TYPE

from .kit import HI, SCHEMA, TURNS, each_api, field_of, function, names, parsed, refused, rows

WEB = {"type": "web_search_20260209", "name": "web_search", "max_uses": 5}
HOSTED = [WEB, {"type": "mcp", "server_label": "a"}, {"type": "web_search"}]
REQUIRED = {"chat": "required", "responses": "required", "messages": {"type": "any"}}


def test_all_types_of_the_sdks_are_known():
    own = {"function", "custom", "namespace", *TABLE}
    hosted = HostedTools(omit=True)
    for kind in tool_types(ToolParam) | tool_types(BetaToolUnionParam):
        if kind not in own and not kind.startswith(TOOLSETS):
            assert hosted.leaves_out({"type": kind}, "tools[0]"), kind


@pytest.mark.parametrize(
    "kind",
    ["web_search_", "web_search_x\r\ny: z", "web_search_preview_2", "computer_use_preview_x",
     "advisor_20260301,mcp", "advisor", "function", 3, None],
)  # fmt: skip
def test_other_texts_are_no_hosted_tools(kind):
    assert not HostedTools(omit=False).leaves_out({"type": kind}, "tools[0]")


@each_api()
def test_hosted_tools_are_left_out_or_refused(api):
    look = function(api)
    asked = parsed(api, {"tools": [*HOSTED, look, WEB]})
    assert asked.tools[0].param.startswith("tools[3].")
    error = refused(api, {"tools": [look, *HOSTED]}, omit_hosted=False)
    assert (type(error), error.param) == (UnsupportedParameter, "tools[1]")
    wrong = function(api, strict="yes")
    error = refused(api, {"tools": [WEB, look, WEB, wrong]})
    assert (error.param or "").startswith("tools[3].")
    assert "tools[3]." in error.message


@each_api()
def test_a_choice_can_not_require_what_was_left_out(api):
    required = {"tool_choice": REQUIRED[api]}
    asked = parsed(api, {"tools": HOSTED, **required})
    with pytest.raises(InvalidTools, match=r"'web_search_20260209'.*'mcp'") as error:
        without(asked, {}, Notes(omitted_tools=field_of(asked, "omitted_tools")))
    assert error.value.param == "tools"
    assert parsed(api, {"tools": [*HOSTED, function(api)], **required}).tools
    assert parsed(api, {"tools": HOSTED}).tools == ()


def test_a_choice_can_not_name_a_hosted_tool():
    choice = {"type": "tool", "name": "web_search"}
    error = refused("messages", {"tools": [function("messages"), WEB], "tool_choice": choice})
    assert (type(error), error.param) == (InvalidTools, "tools[1]")


@pytest.mark.parametrize("open_objects", [False, True])
@pytest.mark.parametrize("form", ["tools", "response_format"])
def test_open_objects_allow_additional_properties(form, open_objects):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    own = {"name": "look", "parameters": schema}
    given = {
        "tools": [{"type": "function", "function": own}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    request = parsed("chat", {form: given[form]}, open_objects=open_objects)
    held = request.content_format if form == "response_format" else request.tools[0]
    assert held is not None
    assert held.parameters.get("additionalProperties", False) is open_objects


CLOSE = {"name": "close", "input_schema": SCHEMA}
LATER = {**CLOSE, "defer_loading": True}
SEARCH = {"name": "search", "input_schema": SCHEMA}
SEARCHED = [
    *HI,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}],
    },
]


def found(name):
    reference = {"type": "tool_reference", "tool_name": name}
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [reference]}
    return [*SEARCHED, {"role": "user", "content": [block]}]


def test_an_invalid_deferred_tool_is_an_error_when_it_is_added():
    broken = {**LATER, "input_schema": {"type": "nothing"}}
    error = refused("messages", {"messages": found("close"), "tools": [SEARCH, broken]})
    assert (error.param or "").startswith("tools[1].input_schema")


@pytest.mark.parametrize("deferred", [True, False])
def test_two_tools_of_one_name_are_refused_also_if_one_is_deferred(deferred):
    other = {**CLOSE, "description": "Another one.", "defer_loading": deferred}
    error = refused("messages", {"messages": found("close"), "tools": [SEARCH, LATER, other]})
    assert isinstance(error, InvalidTools)


def test_ten_thousand_deferred_tools_are_read_only_if_they_are_found():
    many = [{**LATER, "name": f"valve_{at}"} for at in range(9_998)]
    asked = parsed("messages", {"messages": found("valve_77"), "tools": [SEARCH, CLOSE, *many]})
    assert names(asked) == ["search", "close", "valve_77"]
    eager = [{**CLOSE, "name": f"valve_{at}"} for at in range(1_001)]
    assert refused("messages", {"tools": eager}).param == "tools"


def test_searches_are_run_and_found_tools_stay():
    name = "tool_search_tool_regex"
    asked = parsed("messages", {"tools": [{"type": f"{name}_20251119", "name": name}, LATER]})
    assert [*asked.gateway_tools] == names(asked) == [name]
    items = [
        *HI,
        {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "a"}},
        {"type": "tool_search_output", "call_id": "c", "tools": [function("responses")]},
        *HI,
    ]
    body = {"input": items, "tools": [{"type": "tool_search", "execution": "client"}]}
    assert names(parsed("responses", body, recalled=3)) == ["tool_search", "look"]


TEMPLATE = jinja2.Environment().from_string(
    "{% for t in tools or [] %}{{ t.function.name }}: {{ t.function.parameters }}\n{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.tool_calls }}\n{% endfor %}"
)
COUNT = 10
"""Turns, in each of which another tool is found."""


async def rendered(asked):
    async def render(messages, tools):
        return TEMPLATE.render(messages=messages, tools=tools)

    prompt = chat_prompt(asked)
    messages = await AddedTools(render, []).shown(prompt)
    return TEMPLATE.render(messages=json.loads(json.dumps(messages)), tools=prompt.tools)


def a_turn(api, at):
    """A search that finds a tool, its result, and what is said then."""
    name = f"tool_{at}"
    reference = {"type": "tool_reference", "tool_name": name}
    said = [{"role": "assistant", "content": "Found."}, {"role": "user", "content": "Go on."}]
    if api == "chat":
        call = {"id": f"c{at}", "function": {"name": "search", "arguments": "{}"}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{at}", "content": [reference]},
            *said,
        ]
    if api == "responses":
        tool = function(api, name)
        space = {"type": "namespace", "name": "shop", "tools": [tool]}
        return [
            {"type": "tool_search_call", "call_id": f"c{at}", "arguments": {"query": "a"}},
            {"type": "tool_search_output", "call_id": f"c{at}", "tools": [space]},
            said[0],
            {"type": "additional_tools", "role": "developer", "tools": [tool]},
            said[1],
        ]
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "search", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": [reference]}
    turn = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}, *said]
    if at % 2:
        tool = {"type": "tool_reference", "name": name}
        turn += [{"role": "system", "content": [{"type": "tool_removal", "tool": tool}]}, *said]
    return turn


@each_api()
async def test_a_prompt_begins_with_the_earlier_prompt(api):
    """So that the prefix cache has all of it."""
    tools = [function(api, "search")]
    tools += [{**function(api, f"tool_{at}"), "defer_loading": True} for at in range(COUNT)]
    if api == "responses":
        tools = [{"type": "tool_search", "execution": "client", "parameters": SCHEMA}]
    earlier, turns = "", [*HI]
    for at in range(COUNT):
        asked = parsed(api, {TURNS[api]: turns, "tools": tools})
        text = await rendered(asked)
        assert text.startswith(earlier)
        assert all(f"tool_{before}" in text for before in range(at))
        assert f"tool_{at}" not in text
        assert len(asked.prompt_tools) == 1
        earlier, turns = text, turns + a_turn(api, at)


# --- tools that Anthropic and OpenAI define and clients run ---------------------------------------

FAMILIES = ("bash_", "text_editor_", "memory_", "computer_")
BASH = {"type": "bash_20250124", "name": "bash"}
MEMORY = {"type": "memory_20250818", "name": "memory"}
SCREEN = {"display_width_px": 800, "display_height_px": 600}


def entry(kind):
    if kind in BY_TYPE:
        return {"type": kind}
    screen = SCREEN if kind.startswith("computer_") else {}
    return {"type": kind, "name": TABLE[kind].name, **screen}


def tool_of(given):
    (tool,) = parsed(
        "responses" if given["type"] in BY_TYPE else "messages", {"tools": [given]}
    ).tools
    return tool


@pytest.mark.parametrize("kind", [*TABLE, *BY_TYPE])
def test_masks_enforce_each_schema_completely(kind):
    strict = {} if kind in BY_TYPE else {"strict": True}
    tool = tool_of(entry(kind) | strict)
    assert tool.name == (kind if kind in BY_TYPE else TABLE[kind].name)
    assert bool(tool.strict) == bool(strict)
    assert prepare(tool.parameters).residual == ()
    shown = tool.definition["function"]
    assert shown["description"]
    assert shown["parameters"]["properties"], "chat templates show the members"
    if kind in BY_TYPE:
        assert shown["parameters"] == OFFERED[kind]["parameters"]


@pytest.mark.parametrize(("given", "arguments", "valid"), rows("tables")["client tools"])
def test_only_calls_that_the_client_can_run_are_valid(given, arguments, valid):
    masks = prepare(tool_of(given).parameters).schema
    assert jsonschema_rs.is_valid(masks, arguments) is valid


def test_all_versions_of_the_sdk_are_known():
    kinds = {kind for kind in tool_types(BetaToolUnionParam) if kind.startswith(FAMILIES)}
    assert {kind for kind in kinds if not kind.startswith(TOOLSETS)} == {*TABLE}


def test_commands_of_memory_have_the_members_of_the_sdk():
    alternatives = tool_of(MEMORY).definition["function"]["parameters"]["anyOf"]
    made = {
        each["properties"]["command"]["const"]: (set(each["properties"]), set(each["required"]))
        for each in alternatives
    }
    (union, *_) = get_args(BetaMemoryTool20250818Command)
    declared = {}
    for model in get_args(union):
        (command,) = get_args(model.model_fields["command"].annotation)
        needed = {name for name, field in model.model_fields.items() if field.is_required()}
        declared[command] = (set(model.model_fields), needed)
    assert made == declared


@pytest.mark.parametrize(("given", "words"), rows("tables")["descriptions"])
def test_members_of_an_entry_are_in_its_description(given, words):
    assert words in tool_of(given).definition["function"]["description"]


def test_fields_without_effect_and_grammars_of_tools_of_the_client():
    more = {
        "cache_control": {"type": "ephemeral"},
        "allowed_callers": ["direct"],
        "defer_loading": False,
        "input_examples": [{"command": "ls"}],
    }
    assert tool_of(BASH | more) == tool_of(BASH)
    form = {"type": "grammar", "syntax": "regex", "definition": "(?s).*"}
    (tool,) = parsed(
        "responses", {"tools": [{"type": "custom", "name": "a", "format": form}]}
    ).tools
    assert grammar_of(tool.parameters) == Grammar("regex", "(?s).*")


def test_the_client_runs_them_where_hosted_tools_are_refused():
    tools = [{"type": kind} for kind in BY_TYPE]
    asked = parsed("responses", {"tools": tools}, omit_hosted=False)
    assert names(asked) == [tool.type for tool in BUILTIN_TOOLS]
    assert field_of(asked, "omitted_tools") == ()
    remote = {"type": "shell", "environment": {"type": "container_auto"}}
    with pytest.raises(UnsupportedParameter):
        parsed("responses", {"tools": [remote, function("responses")]}, omit_hosted=False)


def offered(api, *schemas):
    """Tools with these schemas, as one request after the other reads them."""
    member = "input_schema" if api == "messages" else "parameters"
    bodies = [{"tools": [function(api, **{member: each})]} for each in schemas]
    return [parsed(api, copy.deepcopy(each)).tools[0] for each in bodies]


@each_api()
def test_a_tool_of_an_earlier_request_is_the_same_at_its_new_place(api):
    tools = [function(api, "look", description="Looks."), function(api, "other")]
    sent = copy.deepcopy(tools)
    first = parsed(api, {"tools": sent}).tools
    for entry in (sent[0], sent[0].get("function", {})):
        entry["description"] = "Changed after it was read."
    again = parsed(api, {"tools": tools[::-1]}).tools[::-1]
    assert again == first
    assert "Looks." in str(again[0].definition)
    assert [tool.param.partition(".")[0] for tool in again] == ["tools[1]", "tools[0]"]


@each_api()
def test_tools_that_differ_in_anything_are_not_mixed_up(api):
    values = [1, True, 1.5, "1", None]
    schemas = [{**SCHEMA, "properties": {"a": {"enum": [each]}}} for each in values]
    schemas += [{**SCHEMA, "properties": {name: {} for name in names}} for names in ("ab", "ba")]
    first, again = offered(api, *schemas), offered(api, *schemas)
    assert [str(tool.definition) for tool in first] == [str(tool.definition) for tool in again]
    assert len({str(tool.definition) for tool in first}) == len(schemas)
    with pytest.raises(InvalidTools):  # written as null, too
        offered(api, {**SCHEMA, "properties": {"a": {"enum": [math.nan]}}})


def test_known_tools_are_bounded(monkeypatch):
    monkeypatch.setattr(shared_tools, "MAX_KNOWN_LENGTH", 100)
    monkeypatch.setattr(shared_tools, "MAX_KNOWN_BYTES", 300)
    known, read = ReadToolCache(), []

    def find(*numbers):
        read.clear()
        for at in numbers:
            assert known.find("kind", ["x" * 60, at], lambda entry: read.append(entry[1]) or entry)
        return [*read]

    assert find(*range(6), *range(6)) == [*range(6), 4, 5], "as many as fit stay"
    assert find(*range(6, 50), 0) == [*range(6, 50), 0], "what is not sent is forgotten"
    assert sum(map(len, known._read["kind"])) <= 300
    assert known.find("kind", "x" * 101, list) is None
