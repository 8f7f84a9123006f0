"""Parameters of a chat completion request, and its reasoning mode and budget."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import HELLO, TOOL, admitted
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

JSON = {"response_format": {"type": "json_object"}}


def test_a_minimal_request_sets_no_parameters() -> None:
    request = admitted()
    assert request.model == "tiny"
    assert request.messages == ({"role": "user", "content": "Hello"},)
    assert (request.tools, request.tool_choice, request.reasoning) == ((), "auto", "default")
    assert request.template_kwargs is None
    assert request.sampling.model_dump(exclude_defaults=True) == {}
    assert request.request_id.startswith("chatcmpl-")
    assert admitted().request_id != request.request_id


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
        ({"stream": True, "prompt_logprobs": 1}, "prompt_logprobs"),
        ({"allowed_token_ids": [1], "tools": [TOOL]}, "allowed_token_ids"),
        ({"allowed_token_ids": [1], "bad_words": ["a"]}, "allowed_token_ids"),
        (JSON | {"repetition_detection": {"max_pattern_size": 2}}, "repetition_detection"),
        ({"repetition_detection": {"min_count": 3}}, "repetition_detection.max_pattern_size"),
        ({"repetition_detection": {"most": 3}}, "repetition_detection.most"),
        (JSON | {"structured_outputs": {"json_object": True}}, "structured_outputs"),
        ({"structured_outputs": {"grammar": "a"}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"choice": [""]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_logprobs": 3}, "top_logprobs"),  # without logprobs
        ({"logprob_token_ids": [3]}, "logprob_token_ids"),
        ({"function_call": "required"}, "function_call"),
        ({"function_call": {"name": 3}}, "function_call"),
        ({"tool_choice": "every"}, "tool_choice"),
        ({"tool_choice": 3}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": 3}}}, "tool_choice"),
    ],
)
def test_invalid_parameters_are_rejected_with_their_names(
    params: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(**params)
    assert (refusal.value.param, refusal.value.status) == (param, 400)


def test_null_is_the_same_as_no_value() -> None:
    assert admitted(temperature=None, tools=None, unknown=None, stop=None).stop == ()


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"modalities": ["audio"]}, "modalities"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"anything_else": 1}, "anything_else"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
        ({"chat_template_kwargs": {"tools": "x"}}, "chat_template_kwargs.tools"),
        ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs.messages"),
    ],
)
def test_an_unsupported_value_is_rejected_with_its_name(params: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**params)
    assert refusal.value.param == param


def test_stream_options() -> None:
    assert admitted(stream=True, stream_options={"include_usage": True}).include_usage
    assert not admitted(stream=True, stream_options={}).include_usage
    with pytest.raises(InvalidRequest) as refusal:
        admitted(stream_options={"include_usage": True})
    assert refusal.value.param == "stream_options"
    assert admitted(stream=True, stream_options={"continuous_usage_stats": True}).continuous_usage
    assert admitted(stream=True, stream_options={"toolgate_call_done": True}).call_done
    with pytest.raises(UnsupportedParameter) as unsupported:
        admitted(stream=True, stream_options={"more": True})
    assert unsupported.value.param == "stream_options.more"


def test_stop_strings() -> None:
    assert admitted(stop="\n").stop == ("\n",)
    assert admitted(stop=["a", "b"]).stop == ("a", "b")
    assert admitted(stop=[]).stop == ()


def test_continuing_the_last_message() -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Well"}]
    request = admitted(messages=messages, continue_final_message=True, echo=True)
    assert request.template_kwargs == {
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    assert request.echo == "Well"
    assert admitted(echo=True).echo == ""
    assert admitted(add_generation_prompt=False).template_kwargs == {"add_generation_prompt": False}
    with pytest.raises(InvalidRequest) as refusal:
        admitted(continue_final_message=True, add_generation_prompt=True)
    assert refusal.value.param == "continue_final_message"


def test_repetition_guard() -> None:
    assert admitted().repetition_guard
    assert not admitted(toolgate={"repetition_guard": False}).repetition_guard
    with pytest.raises(InvalidRequest) as refusal:
        admitted(toolgate={"repetition_guard": 2})
    assert refusal.value.param == "toolgate.repetition_guard"


@pytest.mark.parametrize(
    ("params", "mode", "kwargs"),
    [
        ({"chat_template_kwargs": {"enable_thinking": True}}, "on", {"enable_thinking": True}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off", {"enable_thinking": False}),
        ({"chat_template_kwargs": {"enable_thinking": None}}, "default", None),
        ({"chat_template_kwargs": {"style": "short"}}, "default", {"style": "short"}),
        (
            {"reasoning_effort": "none"},
            "off",
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        (
            {"reasoning_effort": "high"},
            "on",
            {"reasoning_effort": "high", "enable_thinking": True},
        ),
        (
            {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
            "off",
            {"reasoning_effort": "high", "enable_thinking": False},
        ),
    ],
)
def test_reasoning_mode_and_template_arguments(
    params: dict[str, Any], mode: str, kwargs: dict[str, Any] | None
) -> None:
    request = admitted(**params)
    assert (request.reasoning, request.template_kwargs) == (mode, kwargs)


@pytest.mark.parametrize(
    ("params", "budget"),
    [
        ({}, None),
        ({"reasoning_effort": "low"}, 2048),
        ({"reasoning_effort": "high"}, None),
        ({"reasoning_effort": "low", "reasoning_budget": 7}, 7),
        ({"thinking_token_budget": 9}, 9),
        ({"thinking_token_budget": -1}, None),
        ({"reasoning_budget": 0}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
    ],
)
def test_reasoning_budgets(params: dict[str, Any], budget: int | None) -> None:
    assert admitted(**params).reasoning_budget == budget


def test_other_forms_of_enable_thinking() -> None:
    assert admitted(thinking={"type": "enabled", "budget_tokens": 5}).reasoning == "on"
    assert admitted(thinking={"type": "disabled"}).reasoning == "off"
    assert admitted(enable_thinking=False).reasoning == "off"
    with pytest.raises(InvalidRequest):
        admitted(thinking={"type": "some"})
