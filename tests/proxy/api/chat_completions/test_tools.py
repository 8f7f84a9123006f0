"""Tools, and which of them may be or must be called, in the forms of every API version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import TOOL, admitted
from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter


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
        ({"mode": "auto", "tools": ["look"]}, "tool_choice.allowed_tools.tools"),
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
