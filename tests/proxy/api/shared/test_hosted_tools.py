"""Tools that the provider of an API runs, in the requests of all APIs."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaToolUnionParam
from openai.types.responses import ToolParam

from tests.support.apis.value_examples import tool_types
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_proxy.api.messages.client_tools.table import TABLE
from toolgate_proxy.api.messages.tools import TOOLSETS
from toolgate_proxy.api.shared.tools import HostedTools
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.chat.constraints import schema_params
from toolgate_proxy.chat.request.invalid_tools import without

CHAT, RESPONSES, MESSAGES = SURFACES
NAMES = [surface.name for surface in SURFACES]
HI = [{"role": "user", "content": "hi"}]
SEARCH = {"type": "web_search_20260209", "name": "web_search", "max_uses": 5}
HOSTED = [SEARCH, {"type": "mcp", "server_label": "a"}, {"type": "web_search"}]
SCHEMA = {"type": "object"}
REQUIRED = {CHAT.name: "required", RESPONSES.name: "required", MESSAGES.name: {"type": "any"}}


def look(surface: Surface, **more: Any) -> dict[str, Any]:
    function = {"name": "look", "parameters": SCHEMA, **more}
    if surface is CHAT:
        return {"type": "function", "function": function}
    if surface is RESPONSES:
        return {"type": "function", **function}
    return {"name": "look", "input_schema": SCHEMA, **more}


def parsed(surface: Surface, tools: list[Any], *, omit: bool = True, **more: Any) -> ChatRequest:
    body: dict[str, Any] = {"model": "tiny", "tools": tools, **more}
    body |= {"input": "hi"} if surface is RESPONSES else {"messages": HI}
    if surface is MESSAGES:
        body["max_tokens"] = 9
    return surface.parse(body, model="tiny", omit_hosted=omit)


def refusal(surface: Surface, tools: list[Any], **more: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        parsed(surface, tools, **more)
    return refused.value


def test_all_types_of_the_sdks_are_known() -> None:
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
def test_other_texts_are_no_hosted_tools(kind: object) -> None:
    assert not HostedTools(omit=False).leaves_out({"type": kind}, "tools[0]")


@pytest.mark.parametrize("surface", SURFACES, ids=NAMES)
def test_hosted_tools_are_left_out_or_refused(surface: Surface) -> None:
    asked = parsed(surface, [*HOSTED, look(surface), SEARCH])
    assert [tool.name for tool in asked.tools] == ["look"]
    assert asked.omitted_tools == ("web_search_20260209", "mcp", "web_search")
    assert schema_params(asked)["look"].startswith("tools[3].")
    error = refusal(surface, [look(surface), *HOSTED], omit=False)
    assert (type(error), error.param) == (UnsupportedParameter, "tools[1]")


@pytest.mark.parametrize("surface", SURFACES, ids=NAMES)
def test_an_error_counts_the_tools_that_are_left_out(surface: Surface) -> None:
    error = refusal(surface, [SEARCH, look(surface), SEARCH, look(surface, strict="yes")])
    assert (error.param or "").startswith("tools[3].")
    assert "tools[3]." in error.message


@pytest.mark.parametrize("surface", SURFACES, ids=NAMES)
def test_a_choice_can_not_require_what_was_left_out(surface: Surface) -> None:
    required = REQUIRED[surface.name]
    asked = parsed(surface, HOSTED, tool_choice=required)
    with pytest.raises(InvalidTools, match=r"'web_search_20260209'.*'mcp'") as error:
        without(asked, {})
    assert error.value.param == "tools"
    assert parsed(surface, [*HOSTED, look(surface)], tool_choice=required).tools
    assert parsed(surface, HOSTED).tools == ()


def test_a_choice_names_a_tool_of_anthropic_by_its_name() -> None:
    choice = {"type": "tool", "name": "web_search"}
    error = refusal(MESSAGES, [look(MESSAGES), SEARCH], tool_choice=choice)
    assert (type(error), error.param) == (InvalidTools, "tools[1]")
    own = {"name": "web_search", "input_schema": SCHEMA}
    assert parsed(MESSAGES, [SEARCH, own], tool_choice=choice).tools[0].name == "web_search"
