"""Errors of all APIs: values that are nearly right, and schemas that can't be enforced."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.errors import InvalidRequest, InvalidTools, SchemaNotEnforceable
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES

CHAT, RESPONSES, MESSAGES = SURFACES
SCHEMA = {"type": "object"}
FORMS: dict[str, dict[str, Any]] = {
    "chat completions": {"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
    "the Responses API": {"type": "function", "name": "f", "parameters": SCHEMA},
    "the Messages API": {"name": "f", "input_schema": SCHEMA},
    "MCP": {"name": "f", "inputSchema": SCHEMA},
}
OWN = {
    "chat completions": "chat completions",
    "responses": "the Responses API",
    "messages": "the Messages API",
}


def refused(surface: Surface, **values: Any) -> InvalidRequest:
    text = (
        {"input": "hi"}
        if surface is RESPONSES
        else {"messages": [{"role": "user", "content": "hi"}]}
    )
    body = {"model": "m", "max_tokens": 9, **text, **values}
    if surface is RESPONSES:
        del body["max_tokens"]
    with pytest.raises(InvalidRequest) as error:
        surface.parse(body, model="m", open_objects=False)
    return error.value


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
@pytest.mark.parametrize("form", FORMS)
def test_a_tool_of_another_api_is_named(surface: Surface, form: str) -> None:
    if form == OWN[surface.name]:
        return
    error = refused(surface, tools=[FORMS[form]])
    assert (type(error), error.param) == (InvalidTools, "tools[0]")
    assert f"It has the form of {form}. Write it as {{" in error.message


SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "a schema without its member": ({"properties": {"a": SCHEMA}}, "SCHEMA.properties"),
    "a keyword beside the schema": ({"SCHEMA": SCHEMA, "required": ["a"]}, "SCHEMA.required"),
    "a slip of the pen": ({"parametres": SCHEMA}, "SCHEMA"),
    "another word": ({"args": SCHEMA}, "SCHEMA"),
    "another member": ({"SCHEMA": SCHEMA, "Stric": True}, "strict"),
}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
@pytest.mark.parametrize("name", SLIPS)
def test_the_member_of_a_tool_that_an_unknown_one_is_meant_to_be_is_suggested(
    surface: Surface, name: str
) -> None:
    schema = "input_schema" if surface is MESSAGES else "parameters"
    members, meant = SLIPS[name]
    tool = {"name": "f"} | {each.replace("SCHEMA", schema): members[each] for each in members}
    tool |= {} if surface is MESSAGES else {"type": "function"}
    inside = "function." if surface is CHAT else ""
    error = refused(surface, tools=[{"type": "function", "function": tool} if inside else tool])
    assert f"Did you mean '{meant.replace('SCHEMA', schema)}'?" in error.message
    assert error.param == f"tools[0].{inside}{[*members][-1]}"


def test_a_schema_beside_the_function_or_a_grammar_without_its_member_is_refused() -> None:
    tool: dict[str, Any] = {"type": "function", "function": {"name": "f"}, "parameters": SCHEMA}
    error = refused(CHAT, tools=[tool])
    assert error.param == "tools[0].parameters"
    assert "Move it into 'tools[0].function'." in error.message
    custom = {"name": "f", "grammar": {"syntax": "regex", "definition": "a"}}
    error = refused(CHAT, tools=[{"type": "custom", "custom": custom}])
    assert error.param == "tools[0].custom.grammar"
    assert "Did you mean 'format'?" in error.message


def test_members_of_a_function_that_clients_send_are_accepted() -> None:
    without = {"annotations": {"title": "F"}, "_meta": {}, "outputSchema": SCHEMA, "return": SCHEMA}
    beside = {"type": "function", "parameters": SCHEMA, "args": SCHEMA, "required": None, "id": "1"}
    functions = [{"name": name, **more} for name, more in (("f", without), ("g", beside))]
    tools = [{"type": "function", "cache_control": {}, "function": each} for each in functions]
    assert len(CHAT.parse({"messages": TALK, "tools": tools}, model="m").tools) == 2


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_the_range_of_a_temperature_is_stated(surface: Surface) -> None:
    error = refused(surface, temperature=3)
    assert error.message == "'temperature' must be a number from 0 to 2, but is 3."


@pytest.mark.parametrize("surface", [CHAT, RESPONSES], ids=lambda surface: surface.name)
def test_the_nearest_tool_choice_is_suggested(surface: Surface) -> None:
    tool = FORMS[OWN[surface.name]]
    error = refused(surface, tools=[tool], tool_choice="requird")
    assert error.message.endswith('but is "requird". Did you mean "required"?')
    allowed = {"mode": "requird", "tools": [{"type": "function", "name": "f"}]}
    choice = {"type": "allowed_tools", **allowed, "allowed_tools": allowed}
    error = refused(surface, tools=[tool], tool_choice=choice)
    assert error.message.endswith('but is "requird". Did you mean "required"?')


def test_a_tool_choice_of_openai_is_written_as_an_object_in_messages() -> None:
    tool = FORMS["the Messages API"]
    error = refused(MESSAGES, tools=[tool], tool_choice="auto")
    assert error.message.endswith('but is "auto". Did you mean {"type": "auto"}?')
    error = refused(MESSAGES, tools=[tool], tool_choice={"type": "required"})
    assert '"any" (a call is required)' in error.message
    assert 'but is "required"' in error.message


def test_the_nearest_function_call_is_suggested() -> None:
    function = FORMS["chat completions"]["function"]
    error = refused(CHAT, functions=[function], function_call="atuo")
    assert error.message.endswith('but is "atuo". Did you mean "auto"?')


def test_an_unknown_type_of_tool_is_refused_by_name() -> None:
    error = refused(MESSAGES, tools=[{"type": "functoin", "name": "f"}])
    assert "'functoin', which is not supported" in error.message


OUTSIDE = {"type": "object", "properties": {"a": {"$ref": "http://example.com/schema"}}}
TALK = [{"role": "user", "content": "Hi."}]
FUNCTION = {"name": "f", "parameters": OUTSIDE}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "chat completions": (
        {"messages": TALK, "tools": [{"type": "function", "function": FUNCTION}]},
        "tools[0].function.parameters",
    ),
    "responses": (
        {"input": TALK, "tools": [{"type": "web_search"}, {"type": "function", **FUNCTION}]},
        "tools[1].parameters",
    ),
    "messages": (
        {
            "messages": TALK,
            "max_tokens": 9,
            "tools": [{"name": "f", "input_schema": OUTSIDE}],
        },
        "tools[0].input_schema",
    ),
}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_error_has_the_path_and_the_pointer(surface: Any) -> None:
    body, path = CASES[surface.name]
    with pytest.raises(SchemaNotEnforceable) as refusal:
        surface.parse({"model": "m", **body}, model="m")
    assert refusal.value.param == path
    assert refusal.value.pointer == "/properties/a/$ref"
    assert surface.error(refusal.value)["error"]["param"] == path
