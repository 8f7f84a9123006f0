"""Bodies of chat completion requests: valid and invalid parameters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import HELLO, TOOL, admitted
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.chat_completions.parameters import BY_NAME, PARAMETERS


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
        ({"allowed_token_ids": [1], "tools": [TOOL]}, "allowed_token_ids"),
        ({"allowed_token_ids": [1], "bad_words": ["a"]}, "allowed_token_ids"),
        (
            {
                "repetition_detection": {"max_pattern_size": 2},
                "response_format": {"type": "json_object"},
            },
            "repetition_detection",
        ),
        ({"repetition_detection": {"min_count": 3}}, "repetition_detection.max_pattern_size"),
        ({"repetition_detection": {"most": 3}}, "repetition_detection.most"),
        (
            {
                "structured_outputs": {"json_object": True},
                "response_format": {"type": "json_object"},
            },
            "structured_outputs",
        ),
        ({"structured_outputs": {"grammar": "a"}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"choice": [""]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ],
)
def test_contradicting_parameters_are_rejected(params: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(**params)
    assert refusal.value.param == param


def test_null_is_the_same_as_no_value() -> None:
    assert admitted(temperature=None, tools=None, unknown=None, stop=None).stop == ()


@pytest.mark.parametrize("name", sorted(p.name for p in PARAMETERS if p.support == "ignored"))
def test_ignored_parameters_accept_any_value(name: str) -> None:
    assert admitted(**{name: "anything"}) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature", float("nan")),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", 1.5),
        ("top_k", -2),
        ("min_p", 2),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repetition_penalty", 0),
        ("seed", 2**63),
        ("seed", "1"),
        ("n", 0),
        ("n", 129),
        ("n", True),
        ("max_tokens", 0),
        ("max_completion_tokens", -1),
        ("logprobs", 5),
        ("top_logprobs", 3),
        ("logit_bias", [1]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": "2"}),
        ("logit_bias", {"²": 1}),
        ("stop", ["a"] * 65),
        ("bad_words", "a"),
        ("bad_words", [" "]),
        ("bad_words", [3]),
        ("cache_salt", ""),
        ("reasoning_budget", -2),
        ("thinking_token_budget", "much"),
        ("toolgate", []),
        ("include_reasoning", "no"),
        ("echo", 1),
        ("functions", {}),
        ("function_call", "required"),
        ("function_call", {"name": 3}),
        ("response_format", "json"),
        ("return_token_ids", "yes"),
        ("stop", ""),
        ("stop", [""]),
        ("stop", {"a": 1}),
        ("stop_token_ids", ["a"]),
        ("stop_token_ids", [-1]),
        ("parallel_tool_calls", "no"),
        ("tools", {"a": 1}),
        ("tool_choice", "every"),
        ("tool_choice", 3),
        ("tool_choice", {"type": "function"}),
        ("tool_choice", {"type": "function", "function": {"name": 3}}),
        ("chat_template_kwargs", []),
        ("reasoning_effort", "some"),
        ("reasoning_effort", 3),
        ("priority", "high"),
        ("priority", 10**30),
        ("min_tokens", 10**30),
        ("top_k", 10**30),
        ("reasoning_budget", 10**30),
        ("stop_token_ids", [10**30]),
        ("logit_bias", {"9" * 5000: 1}),
        ("cache_salt", 3),
        ("allowed_token_ids", []),
        ("allowed_token_ids", [-1]),
        ("logprob_token_ids", ["a"]),
        ("logprob_token_ids", [3]),  # without logprobs
        ("prompt_logprobs", 21),
        ("prompt_logprobs", -1),
        ("repetition_detection", 3),
        ("request_id", "two words"),
        ("request_id", ""),
        ("return_prompt_text", "yes"),
        ("return_tokens_as_token_ids", 3),
        ("structured_outputs", "json"),
        ("truncate_prompt_tokens", -2),
        ("truncation_side", "middle"),
    ],
)
def test_an_invalid_value_is_rejected_with_the_parameter_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(**{name: value})
    assert refusal.value.param == name
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modalities", ["audio"]),
        ("audio", {"voice": "alloy"}),
        ("prediction", {}),
        ("tool_choice", {"type": "mcp"}),
        ("use_beam_search", True),
        ("mm_processor_kwargs", {"a": 1}),
        ("guided_json", {}),
        ("anything_else", 1),
    ],
)
def test_an_unsupported_value_is_rejected_with_the_parameter_name(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{name: value})
    assert refusal.value.param == name


@pytest.mark.parametrize("name", [p.name for p in PARAMETERS if p.support == "rejected"])
def test_rejected_parameters_are_rejected_with_their_reason(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{name: {"any": "thing"}})
    assert refusal.value.param == name
    assert BY_NAME[name].note in refusal.value.message


def test_default_values_of_unsupported_parameters_are_accepted() -> None:
    assert admitted(response_format={"type": "text"}, modalities=["text"], echo=False)


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


def test_on_budget() -> None:
    assert admitted().on_budget == "cut"
    assert admitted(toolgate={"on_budget": "close"}).on_budget == "close"
    for wrong in ({"on_budget": "end"}, {"on_budgets": "close"}):
        with pytest.raises(InvalidRequest) as refusal:
            admitted(toolgate=wrong)
        assert str(refusal.value.param).startswith("toolgate.on_budget")


def test_repetition_guard() -> None:
    assert admitted().repetition_guard
    assert not admitted(toolgate={"repetition_guard": False}).repetition_guard
    with pytest.raises(InvalidRequest) as refusal:
        admitted(toolgate={"repetition_guard": 2})
    assert refusal.value.param == "toolgate.repetition_guard"


def test_each_parameter_has_one_row_and_a_note() -> None:
    assert len(BY_NAME) == len(PARAMETERS)
    assert all(parameter.note for parameter in PARAMETERS)
