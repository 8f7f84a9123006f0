from __future__ import annotations

from typing import Any

import pytest

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.plan import AllowedTools, ChatRequest, NamedTool
from toolgate_proxy.admission import admit
from toolgate_proxy.parameters import BY_NAME, PARAMETERS

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


def test_what_vllm_has_beyond_it_is_carried_over() -> None:
    request = admitted(
        logprobs=True,
        logprob_token_ids=[5, 6],
        prompt_logprobs=2,
        allowed_token_ids=[7],
        repetition_detection={"max_pattern_size": 4, "min_count": 3},
        return_prompt_text=True,
        return_tokens_as_token_ids=True,
        truncate_prompt_tokens=100,
        truncation_side="left",
        add_special_tokens=True,
        request_id="mine",
    )
    assert request.sampling.model_dump(exclude_defaults=True) == {
        "logprobs": 0,
        "logprob_token_ids": (5, 6),
        "prompt_logprobs": 2,
        "allowed_token_ids": (7,),
        "repetition_detection": {"max_pattern_size": 4, "min_count": 3},
    }
    assert request.return_prompt_text
    assert request.tokens_as_ids
    assert request.tokenizing == wire.Tokenizing(
        add_special_tokens=True, truncate_prompt_tokens=100, truncation_side="left"
    )
    assert request.answer_id == "chatcmpl-mine"
    assert request.request_id != request.answer_id


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
def test_what_does_not_go_together_is_refused(params: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(**params)
    assert refusal.value.param == param


def test_prompt_logprobs_are_not_streamed() -> None:
    with pytest.raises(InvalidRequest):
        admitted(stream=True, prompt_logprobs=1)


def test_max_completion_tokens_goes_before_max_tokens() -> None:
    assert admitted(max_tokens=5, max_completion_tokens=9).sampling.max_tokens == 9


def test_null_counts_as_left_out() -> None:
    assert admitted(temperature=None, tools=None, unknown=None, stop=None).stop == ()


def test_logprobs_alone_asks_for_no_alternatives() -> None:
    assert admitted(logprobs=True).sampling.logprobs == 0
    assert admitted(logprobs=False, top_logprobs=0).sampling.logprobs is None


@pytest.mark.parametrize("name", sorted(p.name for p in PARAMETERS if p.support == "no bearing"))
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
        ("tool_choice", "any"),
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
def test_a_wrong_value_is_refused_by_its_name(name: str, value: Any) -> None:
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
        ("verbosity", "low"),
        ("tool_choice", {"type": "custom"}),
        ("use_beam_search", True),
        ("mm_processor_kwargs", {"a": 1}),
        ("guided_json", {}),
        ("anything_else", 1),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{name: value})
    assert refusal.value.param == name


@pytest.mark.parametrize("name", [p.name for p in PARAMETERS if p.support == "refused"])
def test_what_the_table_refuses_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(**{name: {"any": "thing"}})
    assert refusal.value.param == name
    assert BY_NAME[name].note in refusal.value.message


def test_defaults_of_what_is_not_supported_pass() -> None:
    assert admitted(response_format={"type": "text"}, modalities=["text"], echo=False)


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
    assert admitted(stream=True, stream_options={"continuous_usage_stats": True}).continuous_usage
    with pytest.raises(UnsupportedParameter) as unsupported:
        admitted(stream=True, stream_options={"more": True})
    assert unsupported.value.param == "stream_options.more"


def test_stop_strings() -> None:
    assert admitted(stop="\n").stop == ("\n",)
    assert admitted(stop=["a", "b"]).stop == ("a", "b")
    assert admitted(stop=[]).stop == ()


def test_rules_of_ending_are_taken_beside_tools() -> None:
    sampling = admitted(
        tools=[TOOL], ignore_eos=True, min_tokens=2, stop_token_ids=[1], bad_words=["no", " way"]
    ).sampling
    assert (sampling.ignore_eos, sampling.min_tokens) == (True, 2)
    assert (sampling.stop_token_ids, sampling.bad_words) == ((1,), ("no", " way"))


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


def test_thinking_in_other_words() -> None:
    assert admitted(thinking={"type": "enabled", "budget_tokens": 5}).reasoning == "on"
    assert admitted(thinking={"type": "disabled"}).reasoning == "off"
    assert admitted(enable_thinking=False).reasoning == "off"
    with pytest.raises(InvalidRequest):
        admitted(thinking={"type": "some"})


def test_going_on_with_a_message() -> None:
    said = [*HELLO, {"role": "assistant", "content": "Well"}]
    request = admit("tiny", said, {"continue_final_message": True, "echo": True}, stream=False)
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


def test_what_a_spent_budget_does_to_a_call() -> None:
    assert admitted().on_budget == "cut"
    assert admitted(toolgate={"on_budget": "close"}).on_budget == "close"
    for wrong in ({"on_budget": "end"}, {"on_budgets": "close"}):
        with pytest.raises(InvalidRequest) as refusal:
            admitted(toolgate=wrong)
        assert str(refusal.value.param).startswith("toolgate.on_budget")


def test_formats_of_the_content() -> None:
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
    ],
)
def test_formats_that_are_none(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(response_format=given)
    assert refusal.value.param == param


def test_the_table_names_each_parameter_once() -> None:
    assert len(BY_NAME) == len(PARAMETERS)
    assert all(parameter.note for parameter in PARAMETERS)


@pytest.mark.parametrize("form", ["tools", "functions", "response_format"])
def test_objects_are_open_where_the_gateway_has_them_so(form: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "look", "parameters": schema}
    given: dict[str, Any] = {
        "tools": [{"type": "function", "function": function}],
        "functions": [function],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    for open_objects in (False, True):
        request = admit("tiny", HELLO, {form: given[form]}, stream=False, open_objects=open_objects)
        held = request.content_format if form == "response_format" else request.tools[0]
        assert held is not None
        assert held.parameters.get("additionalProperties", False) is open_objects
