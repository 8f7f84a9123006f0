"""Bodies of Responses requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.responses_api import LOOK, WALK, parsed
from toolgate_core import grammar_key
from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.errors import (
    BudgetTooSmall,
    InvalidRequest,
    SchemaNotEnforceable,
)
from toolgate_proxy.api.chat_completions import parameters as chat
from toolgate_proxy.api.responses.parameters import BY_NAME, CHAT_ONLY
from toolgate_proxy.api.responses.surface import Responses
from toolgate_proxy.chat.constraints import schema_params

SEARCH = {"type": "web_search", "search_context_size": "low"}
LOGPROBS = ["message.output_text.logprobs"]
FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}


FUNCTIONS = [{"type": "function", "name": name} for name in "ab"]


def allowed(mode: str, *tools: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [*tools]}


def refusal(**params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        parsed(**params)
    return refused.value


def test_every_parameter_of_chat_has_a_counterpart() -> None:
    """All of vLLM's, LiteLLM's and Toolgate's, and OpenAI's for sampling."""
    others = {
        "messages", "n", "max_tokens", "max_completion_tokens", "functions", "function_call",
        "response_format", "modalities", "audio", "prediction", "web_search_options", "verbosity",
        *CHAT_ONLY,
    }  # fmt: skip
    assert set(chat.BY_NAME) - set(BY_NAME) == others


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "look"}, NamedTool("look")),
        (allowed("auto", FUNCTIONS[0]), AllowedTools("auto", ("a",))),
        (allowed("required", *FUNCTIONS), AllowedTools("required", ("a", "b"))),
    ],
)
def test_tool_choices(choice: Any, expected: Any) -> None:
    assert parsed(tools=[LOOK], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (3, "tool_choice"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "custom"}, "tool_choice.name"),
        ({"name": "look"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "function", "function": {"name": "look"}}, "tool_choice.name"),
        ({"type": "allowed_tools", "tools": []}, "tool_choice.tools"),
        (allowed("auto"), "tool_choice.tools"),
        (allowed("auto", "a"), "tool_choice.tools[0]"),
        (allowed("auto", {"type": "web_search"}), "tool_choice.tools[0].type"),
    ],
)
def test_wrong_tool_choices(choice: Any, param: str) -> None:
    assert refusal(tools=[LOOK], tool_choice=choice).param == param


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (3, "tools[1]"),
        ({"name": "look"}, "tools[1].type"),
        ({"type": "custom"}, "tools[1].name"),
        ({"type": "namespace", "name": "mcp", "tools": []}, "tools[1].tools"),
        ({"type": "function"}, "tools[1].name"),
        ({"type": "function", "name": "a b"}, "tools[1].name"),
        ({"type": "function", "function": {"name": "look"}}, "tools[1]"),
        ({"type": "function", "name": "look", "parameters": 3}, "tools[1].parameters"),
        ({"type": "function", "name": "look", "strict": "yes"}, "tools[1].strict"),
        ({"type": "function", "name": "look", "description": 3}, "tools[1].description"),
        ({"type": "function", "name": "look", "examples": [1]}, "tools[1].examples"),
        ({"type": "function", "name": "walk"}, "tools[1].name"),
    ],
)
def test_wrong_tools(tool: Any, param: str) -> None:
    """The path counts hosted tools that are left out."""
    error = refusal(tools=[SEARCH if param != "tools[1].name" else WALK, tool])
    assert error.param == param
    assert "function.name" not in error.message


def test_the_response_repeats_the_tools_that_were_offered() -> None:
    asked = parsed(tools=[SEARCH, LOOK, {"type": "mcp"}, WALK])
    assert [tool["name"] for tool in asked.repeated["tools"]] == ["look", "walk"]
    assert schema_params(asked)["walk"] == "tools[3].parameters"


def test_formats() -> None:
    for given in (None, {"type": "text"}):
        assert parsed(text={"format": given}).content_format is None
    for given, param in (
        ({"type": "json_object"}, "text.format"),
        (FORMAT, "text.format.schema"),
    ):
        asked = parsed(text={"format": given}, tools=[LOOK])
        assert asked.content_format is not None
        assert schema_params(asked)[grammar_key.CONTENT] == param


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"text": {"format": 3}}, "text.format"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": FORMAT | {"more": 1}}}, "text.format.more"),
        ({"text": {"format": {"type": "text"}, "more": 1}}, "text.more"),
        ({"text": {"verbosity": "least"}}, "text.verbosity"),
        ({"text": {"format": FORMAT}, "structured_outputs": {"regex": "a"}}, "structured_outputs"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "brief"}}, "reasoning.summary"),
        ({"include": ["x"]}, "include[0]"),
        ({"include": [*LOGPROBS, 3]}, "include[1]"),
        ({"logprob_token_ids": [3]}, "logprob_token_ids"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": True}},
         "stream_options.include_usage"),
        ({"stream": True, "prompt_logprobs": 1, "include": LOGPROBS}, "prompt_logprobs"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"messages": []}, "messages"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"extra_body": {}}, "extra_body"),
        ({"background": "yes"}, "background"),
        ({"background": True, "store": False}, "background"),
        ({"truncation": "oldest"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
    ],
)  # fmt: skip
def test_error_names_the_parameter(params: dict[str, Any], param: str) -> None:
    assert refusal(**params).param == param


def test_clients_defaults_are_accepted() -> None:
    parsed(
        store=True,
        background=False,
        truncation="auto",
        service_tier="auto",
        include=["reasoning.encrypted_content"],
        previous_response_id=None,
        prompt_cache_key="k",
        client_metadata={"installation": "x"},
        reasoning={"effort": "medium", "summary": "auto"},
        stream=True,
        stream_options={"include_obfuscation": False},
    )


def test_logprobs_are_requested_by_include() -> None:
    assert parsed(top_logprobs=3).sampling.logprobs is None
    assert parsed(include=LOGPROBS).sampling.logprobs == 0
    assert parsed(include=LOGPROBS, top_logprobs=3).sampling.logprobs == 3


def test_ids() -> None:
    assert parsed().request_id.startswith("resp_")
    assert parsed(request_id="mine").answer_id == "resp_mine"


def test_defaults_of_a_deployment_get_the_names_of_this_api() -> None:
    defaults: dict[str, Any] = {
        "max_tokens": 50, "temperature": 0.1, "top_k": 3, "n": 2, "stream_options": {},
        "reasoning_effort": "low", "tool_choice": "none",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    }  # fmt: skip
    merged = Responses().with_defaults({"temperature": 0.9, "reasoning": {"summary": "auto"}},
                                       defaults)  # fmt: skip
    assert merged == {
        "max_output_tokens": 50,
        "temperature": 0.9,
        "top_k": 3,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
    }


def test_errors_of_later_steps_are_in_the_words_of_this_api() -> None:
    surface = Responses()
    asked = parsed([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    budget = BudgetTooSmall(
        "max_tokens allows 5 tokens, but the shortest required call takes 9. Set max_tokens to 9.",
        least=9,
        param="max_tokens",
    )
    error = surface.error(budget, asked)["error"]
    assert error["param"] == "max_output_tokens"
    assert error["message"].count("max_output_tokens") == 2
    assert error["code"] == "max_tokens_too_small"
    image = InvalidRequest("The image at 'messages[1].content[0]' is wrong.",
                           param="messages[1].content[0]")  # fmt: skip
    error = surface.error(image, asked)["error"]
    assert error["param"] == "input[1].content[0]"
    assert "'input[1].content[0]'" in error["message"]
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    result = parsed([{"role": "user", "content": "a"}, call, output])
    image = InvalidRequest("x", param="messages[2].content[0].image_url")
    assert surface.error(image, result)["error"]["param"] == "input[2].output[0].image_url"
    schema = SchemaNotEnforceable("No.", pointer="/not", param="text.format.schema")
    assert surface.error(schema, asked)["error"]["pointer"] == "/not"
    assert surface.error(InvalidRequest("x", param="messages"))["error"]["param"] == "input"
