"""Tools of a chat completion request in the forms of every API version, and `response_format`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import HELLO, TOOL, admitted
from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_proxy.api.chat_completions.request import parse_request


def test_tools_and_the_named_choice() -> None:
    named = {"type": "function", "function": {"name": "look"}}
    request = admitted(tools=[TOOL], tool_choice=named, parallel_tool_calls=False)
    assert request.tools[0].name == "look"
    assert request.tool_choice == NamedTool("look")
    assert request.parallel_tool_calls is False


def test_different_tools_of_one_name_are_refused() -> None:
    other = {**TOOL, "function": {**TOOL["function"], "description": "Another one."}}
    assert len(admitted(tools=[TOOL, TOOL]).tools) == 1
    with pytest.raises(InvalidTools) as refusal:
        admitted(tools=[TOOL, other])
    assert refusal.value.param == "tools[1].function.name"


@pytest.mark.parametrize("flat", [True, False])
def test_allowed_tools(flat: bool) -> None:
    names = [{"type": "function", "function": {"name": "look"}}, {"name": "see"}]
    allowed = {"mode": "required", "tools": names}
    choice = {"type": "allowed_tools"} | (allowed if flat else {"allowed_tools": allowed})
    request = admitted(tools=[TOOL], tool_choice=choice)
    assert request.tool_choice == AllowedTools("required", ("look", "see"))


@pytest.mark.parametrize(
    ("allowed", "param"),
    [
        ({"mode": "must", "tools": [{"name": "look"}]}, "tool_choice.allowed_tools.mode"),
        ({"mode": "auto", "tools": []}, "tool_choice.allowed_tools.tools"),
        ({"mode": "auto", "tools": ["look"]}, "tool_choice.allowed_tools.tools[0]"),
    ],
)
def test_allowed_tools_that_are_none(allowed: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(tools=[TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert refusal.value.param == param


def test_functions_are_tools_in_an_older_form() -> None:
    function = {"name": "look", "parameters": {"type": "object"}}
    request = admitted(functions=[function], function_call={"name": "look"})
    assert request.legacy_functions
    assert request.tools[0].definition == {"type": "function", "function": function}
    assert request.tool_choice == NamedTool("look")
    assert not request.parallel_tool_calls
    assert admitted(functions=[function], function_call="none").tool_choice == "none"
    with pytest.raises(InvalidTools) as wrong:
        admitted(functions=[{"name": "?"}])
    assert wrong.value.param == "functions[0].name"


@pytest.mark.parametrize("old", ["functions", "function_call"])
@pytest.mark.parametrize("new", ["tools", "tool_choice"])
def test_the_two_forms_do_not_mix(old: str, new: str) -> None:
    given = {"functions": [{"name": "look"}], "function_call": "auto"}
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{old: given[old], new: {"tools": [TOOL], "tool_choice": "auto"}[new]})
    assert refusal.value.param == old


def test_each_type_of_response_format() -> None:
    assert admitted(response_format={"type": "text"}).content_format is None
    any_object = admitted(response_format={"type": "json_object"}).content_format
    assert any_object is not None
    assert (any_object.name, any_object.parameters) == ("", {"type": "object"})
    schema = {"type": "object", "title": "T", "properties": {"a": {"type": "integer"}}}
    given = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    held = admitted(response_format=given).content_format
    assert held is not None
    assert held.parameters == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert held.hash != any_object.hash


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"type": "grammar"}, "response_format.type"),
        ({}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.schema"),
        (
            {"type": "json_schema", "json_schema": {"schema": []}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
            "response_format.json_schema.name",
        ),
    ],
)
def test_invalid_response_formats_are_rejected(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(response_format=given)
    assert refusal.value.param == param


@pytest.mark.parametrize("form", ["tools", "functions", "response_format"])
def test_open_objects_allow_additional_properties(form: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "look", "parameters": schema}
    given: dict[str, Any] = {
        "tools": [{"type": "function", "function": function}],
        "functions": [function],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    for open_objects in (False, True):
        body = {"messages": HELLO, form: given[form]}
        request = parse_request(body, model="tiny", open_objects=open_objects)
        held = request.content_format if form == "response_format" else request.tools[0]
        assert held is not None
        assert held.parameters.get("additionalProperties", False) is open_objects
