from __future__ import annotations

from typing import Any

import pytest

from tests import tools
from toolgate_core.chat_request import ChatRequest, NamedTool
from toolgate_core.dialects.families.hermes import HERMES, QWEN3
from toolgate_core.dialects.recognition import recognise
from toolgate_core.dialects.registry import DIALECTS, PLAIN
from toolgate_core.errors import InvalidRequest, InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.plan import make_plan
from toolgate_core.schema.canonical import EMPTY_PARAMETERS
from toolgate_core.tools import parse_tools

TOOLS = parse_tools([tools.WEATHER, tools.TAGS])


def request(**fields: Any) -> ChatRequest:
    return ChatRequest(request_id="r", model="m", messages=(), **{"tools": TOOLS, **fields})


@pytest.mark.parametrize(
    ("fields", "choice", "names", "max_calls"),
    [
        ({}, "auto", ["get_weather", "set_tags"], None),
        ({"parallel_tool_calls": False}, "auto", ["get_weather", "set_tags"], 1),
        ({"tool_choice": "none"}, "none", [], None),
        ({"tools": ()}, "none", [], None),
        ({"tool_choice": "required"}, "required", ["get_weather", "set_tags"], None),
        ({"tool_choice": NamedTool("set_tags")}, "required", ["set_tags"], 1),
    ],
)
def test_plan_has_the_choice_the_candidates_and_the_maximum_of_calls(
    fields: dict[str, Any], choice: str, names: list[str], max_calls: int | None
) -> None:
    plan = make_plan(request(**fields), QWEN3)
    assert plan.choice == choice
    assert [tool.name for tool in plan.candidates] == names
    assert plan.max_calls == max_calls


@pytest.mark.parametrize("more", [{}, {"required": [], "title": "now"}])
def test_a_function_without_declared_parameters_accepts_no_arguments(more: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {}, **more}
    left_out = {"type": "function", "function": {"name": "now"}}
    declared = {"type": "function", "function": {"name": "now", "parameters": schema}}
    [tool], [without] = parse_tools([declared]), parse_tools([left_out])
    assert tool.parameters == EMPTY_PARAMETERS
    assert tool.hash == without.hash
    [opened] = parse_tools([declared], open_objects=True)
    assert "additionalProperties" not in opened.parameters


def test_an_object_without_declared_properties_accepts_any_properties() -> None:
    for schema in ({"type": "object"}, {"properties": {}, "additionalProperties": True}):
        [tool] = parse_tools(
            [{"type": "function", "function": {"name": "f", "parameters": schema}}]
        )
        assert tool.parameters == {"type": "object"} | schema


@pytest.mark.parametrize(
    ("fields", "error", "param"),
    [
        ({"tool_choice": NamedTool("nope")}, UnknownTool, "tool_choice"),
        ({"tool_choice": "required", "tools": ()}, InvalidTools, "tools"),
    ],
)
def test_impossible_requests_are_refused(
    fields: dict[str, Any], error: type[Exception], param: str
) -> None:
    with pytest.raises(error) as refused:
        make_plan(request(**fields), HERMES)
    assert refused.value.param == param  # type: ignore[attr-defined]


def test_a_model_without_marker_tokens_supports_text_only() -> None:
    assert make_plan(request(tools=()), PLAIN).choice == "none"
    with pytest.raises(UnsupportedParameter):
        make_plan(request(), PLAIN)


@pytest.mark.parametrize(
    ("entry", "param"),
    [
        ("x", "tools[0]"),
        ({"type": "web_search"}, "tools[0]"),
        ({"type": "function"}, "tools[0].function"),
        ({"type": "function", "function": {}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": 'a"b'}}, "tools[0].function.name"),
        (
            {"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}},
            "tools[0].function.parameters",
        ),
    ],
)
def test_the_error_names_the_invalid_tool(entry: object, param: str) -> None:
    with pytest.raises(InvalidTools) as refused:
        parse_tools([entry])
    assert refused.value.param == param


@pytest.mark.parametrize(
    "parameters",
    [
        {"dependencies": {"a": ["b"]}, "dependentRequired": 5},
        {"dependencies": {"a": {}}, "dependentSchemas": []},
        {"allOf": 5, "$ref": "#/$defs/a", "$dynamicRef": "#/$defs/a", "$defs": {"a": {}}},
        {"properties": {"\ud800": {}, "b": {"$ref": "#/properties/\ud800"}}},
        {"properties": {"\ud800": {"$anchor": "x"}, "b": {"$ref": "#x"}}},
    ],
)
def test_the_error_names_the_parameters_of_an_invalid_schema(parameters: dict[str, Any]) -> None:
    entry = {"type": "function", "function": {"name": "a", "parameters": parameters}}
    with pytest.raises(InvalidTools) as refused:
        parse_tools([entry])
    assert refused.value.param == "tools[0].function.parameters"


def test_different_tools_of_one_name_are_refused() -> None:
    other = {**tools.TAGS, "function": tools.TAGS["function"] | {"description": "Another tool."}}
    with pytest.raises(InvalidTools, match="unique") as refused:
        parse_tools([tools.TAGS, other])
    assert refused.value.param == "tools[1].function.name"


def test_a_tool_that_is_defined_twice_counts_once() -> None:
    found = parse_tools([tools.TAGS, tools.WEATHER, tools.TAGS])
    assert [tool.param for tool in found] == [
        "tools[0].function.parameters",
        "tools[1].function.parameters",
    ]


def test_invalid_tools_can_be_left_out() -> None:
    wrong = tools.tool("wrong", {})
    wrong["function"]["parameters"]["type"] = "array"
    other = {**tools.TAGS, "function": tools.TAGS["function"] | {"description": "Another tool."}}
    nameless = {"type": "function", "function": {"name": "two words"}}
    errors: dict[str, InvalidRequest] = {}
    found = parse_tools(
        [tools.TAGS, wrong, other, nameless, tools.WEATHER], on_invalid=errors.__setitem__
    )
    assert [tool.name for tool in found] == [tools.TAGS["function"]["name"], "get_weather"]
    assert {name: error.param for name, error in errors.items()} == {
        "wrong": "tools[1].function.parameters",
        "tools[2]": "tools[2].function.name",
        "tools[3]": "tools[3].function.name",
    }


def test_a_dialect_is_detected_by_its_marker_tokens() -> None:
    marks = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    assert recognise(marks).dialect is QWEN3
    assert recognise(marks[:2]).dialect is HERMES
    assert recognise(["<s>"]).dialect is PLAIN
    assert {name: d.name for name, d in DIALECTS.items()} == {name: name for name in DIALECTS}


def test_a_cached_tool_equals_a_new_one() -> None:
    first, second = (parse_tools([tools.TAGS])[0] for _ in range(2))
    assert (first.parameters, first.hash) == (second.parameters, second.hash)
    [renamed] = parse_tools([{**tools.TAGS, "function": tools.TAGS["function"] | {"name": "x"}}])
    assert renamed.hash != first.hash


def test_errors_of_an_equal_schema_have_the_param_of_each_tool() -> None:
    wrong = tools.tool("wrong", {})
    wrong["function"]["parameters"]["type"] = "array"
    for entries, place in (([wrong], 0), ([tools.TAGS, wrong], 1)):
        with pytest.raises(InvalidTools) as refused:
            parse_tools(entries)
        assert refused.value.param == f"tools[{place}].function.parameters"


@pytest.mark.parametrize(("strict", "read"), [(None, False), (False, False), (True, True)])
def test_strict_is_parsed(strict: bool | None, read: bool) -> None:
    entry = {**tools.TAGS, "function": tools.TAGS["function"] | {"strict": strict}}
    assert parse_tools([entry])[0].strict is read


def test_strict_that_is_not_a_boolean_is_refused() -> None:
    entry = {**tools.TAGS, "function": tools.TAGS["function"] | {"strict": "yes"}}
    with pytest.raises(InvalidTools) as refused:
        parse_tools([entry])
    assert refused.value.param == "tools[0].function.strict"
