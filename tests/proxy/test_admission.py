from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.plan import ChatRequest, NamedTool
from toolgate_proxy.admission import NO_BEARING, admit

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def admitted(stream: bool = False, **params: Any) -> ChatRequest:
    return admit("tiny", HELLO, params, stream=stream)


def test_a_bare_request_leaves_everything_to_the_backend() -> None:
    request = admitted()
    assert request.model == "tiny"
    assert request.messages == ({"role": "user", "content": "Hello"},)
    assert (request.tools, request.tool_choice, request.reasoning) == ((), "auto", "default")
    assert request.template_kwargs is None
    assert request.sampling.model_dump(exclude_defaults=True) == {}
    assert request.request_id.startswith("chatcmpl-")
    assert admitted().request_id != request.request_id


def test_sampling_is_carried_over() -> None:
    sampling = admitted(
        temperature=0.5,
        top_p=0.9,
        top_k=40.0,
        min_p=0.1,
        presence_penalty=-1,
        frequency_penalty=1,
        repetition_penalty=1.1,
        seed=-7,
        n=3,
        max_tokens=5,
        logit_bias={"12": -100, "7": 2.5},
        logprobs=True,
        top_logprobs=4,
        stop_token_ids=[3],
        ignore_eos=True,
        min_tokens=2,
    ).sampling
    assert sampling.model_dump(exclude_defaults=True) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "presence_penalty": -1.0,
        "frequency_penalty": 1.0,
        "repetition_penalty": 1.1,
        "seed": -7,
        "n": 3,
        "max_tokens": 5,
        "logit_bias": {12: -100.0, 7: 2.5},
        "logprobs": 4,
        "stop_token_ids": (3,),
        "ignore_eos": True,
        "min_tokens": 2,
    }


def test_max_completion_tokens_goes_before_max_tokens() -> None:
    assert admitted(max_tokens=5, max_completion_tokens=9).sampling.max_tokens == 9


def test_null_counts_as_left_out() -> None:
    assert admitted(temperature=None, tools=None, unknown=None, stop=None).stop == ()


def test_logprobs_alone_asks_for_no_alternatives() -> None:
    assert admitted(logprobs=True).sampling.logprobs == 0
    assert admitted(logprobs=False, top_logprobs=0).sampling.logprobs is None


@pytest.mark.parametrize("name", sorted(NO_BEARING))
def test_what_has_no_bearing_on_the_answer_passes(name: str) -> None:
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
        ("stop", ["a", "b", "c", "d", "e"]),
        ("stop", ""),
        ("stop", [""]),
        ("stop", {"a": 1}),
        ("stop_token_ids", ["a"]),
        ("stop_token_ids", [-1]),
        ("parallel_tool_calls", "no"),
        ("tools", {"a": 1}),
        ("tool_choice", "any"),
        ("tool_choice", 3),
        ("tool_choice", {"type": "function"}),
        ("tool_choice", {"type": "function", "function": {"name": 3}}),
        ("chat_template_kwargs", []),
        ("reasoning_effort", "some"),
        ("reasoning_effort", 3),
        ("priority", "high"),
        ("cache_salt", 3),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(**{name: value})
    assert refusal.value.param == name
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "json_schema", "json_schema": {}}),
        ("functions", [{"name": "look"}]),
        ("function_call", "auto"),
        ("bad_words", ["x"]),
        ("echo", True),
        ("modalities", ["audio"]),
        ("audio", {"voice": "alloy"}),
        ("prediction", {}),
        ("verbosity", "low"),
        ("tool_choice", {"type": "allowed_tools"}),
        ("guided_json", {}),
        ("anything_else", 1),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{name: value})
    assert refusal.value.param == name


def test_defaults_of_what_is_not_supported_pass() -> None:
    assert admitted(response_format={"type": "text"}, modalities=["text"], echo=False)


@pytest.mark.parametrize(
    ("name", "value"), [("ignore_eos", True), ("min_tokens", 1), ("stop_token_ids", [1])]
)
def test_other_rules_of_ending_are_refused_beside_tools(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(tools=[TOOL], **{name: value})
    assert refusal.value.param == name


def test_tools_and_the_named_choice() -> None:
    named = {"type": "function", "function": {"name": "look"}}
    request = admitted(tools=[TOOL], tool_choice=named, parallel_tool_calls=False)
    assert request.tools[0].name == "look"
    assert request.tool_choice == NamedTool("look")
    assert request.parallel_tool_calls is False


def test_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidTools) as refusal:
        admitted(tools=[TOOL, TOOL])
    assert refusal.value.param == "tools[1].function.name"


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
def test_reasoning(params: dict[str, Any], mode: str, kwargs: dict[str, Any] | None) -> None:
    request = admitted(**params)
    assert (request.reasoning, request.template_kwargs) == (mode, kwargs)


@pytest.mark.parametrize("name", ["chat_template", "tools", "messages"])
def test_template_arguments_that_are_ours_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(chat_template_kwargs={name: "x"})
    assert refusal.value.param == f"chat_template_kwargs.{name}"


def test_stream_options() -> None:
    assert admitted(stream=True, stream_options={"include_usage": True}).include_usage
    assert not admitted(stream=True, stream_options={}).include_usage
    with pytest.raises(InvalidRequest) as refusal:
        admitted(stream_options={"include_usage": True})
    assert refusal.value.param == "stream_options"
    with pytest.raises(UnsupportedParameter) as unsupported:
        admitted(stream=True, stream_options={"continuous_usage_stats": True})
    assert unsupported.value.param == "stream_options.continuous_usage_stats"


def test_stop_strings() -> None:
    assert admitted(stop="\n").stop == ("\n",)
    assert admitted(stop=["a", "b"]).stop == ("a", "b")
    assert admitted(stop=[]).stop == ()
