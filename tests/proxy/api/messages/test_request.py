"""Messages requests become chat requests; invalid ones are refused at their path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.apis.messages_api import HI, LOOK, WALK, parsed
from toolgate_core.chat_request import NamedTool
from toolgate_core.context_edits import ClearThinking, ClearToolUses
from toolgate_core.errors import InvalidRequest, ModelNotFound, ToolgateError
from toolgate_proxy.api.messages.surface import Messages, error_body

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def refused(messages: Any = HI, **params: Any) -> ToolgateError:
    with pytest.raises(InvalidRequest) as error:
        parsed(messages, **params)
    return error.value


def test_parameters_reach_the_request() -> None:
    asked = parsed(
        system="Be brief.",
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        stop_sequences=["x", "y"],
        seed=7,
        stream=True,
        tools=[{**LOOK, "description": "d", "strict": True}],
        tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        metadata={"user_id": "u"},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        priority=3,
    )
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 5)
    assert (sampling.max_tokens, sampling.seed) == (100, 7)
    assert (asked.stop, asked.stream, asked.priority) == (("x", "y"), True, 3)
    assert asked.tool_choice == NamedTool("look")
    assert not asked.parallel_tool_calls
    assert asked.tools[0].strict
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert asked.request_id.startswith("msg_")


@pytest.mark.parametrize(
    ("given", "choice"),
    [({"type": "auto"}, "auto"), ({"type": "any"}, "required"), ({"type": "none"}, "none")],
)
def test_tool_choices(given: dict[str, Any], choice: str) -> None:
    asked = parsed(tools=[LOOK], tool_choice=given)
    assert (asked.tool_choice, asked.parallel_tool_calls) == (choice, True)


@pytest.mark.parametrize(
    ("params", "mode", "budget", "shown"),
    [
        ({}, "default", None, False),
        ({"thinking": {"type": "disabled"}}, "off", None, False),
        ({"thinking": {"type": "adaptive"}}, "on", None, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "on", 2000, True),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "on", 2048, True),
        ({"output_config": {"effort": "low"}}, "default", None, False),
        ({"include_reasoning": True}, "default", None, True),
        ({"thinking": {"type": "adaptive"}, "include_reasoning": False}, "on", None, False),
    ],
)
def test_thinking(params: dict[str, Any], mode: str, budget: int | None, shown: bool) -> None:
    asked = parsed(**params)
    assert (asked.reasoning, asked.reasoning_budget) == (mode, budget)
    assert asked.include_reasoning is shown
    effort = params.get("output_config", {}).get("effort")
    assert (asked.template_kwargs or {}).get("reasoning_effort") == effort


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_formats(place: str) -> None:
    given: Any = {"type": "json_schema", "schema": SCHEMA}
    params: dict[str, Any] = {place: {"format": given} if place == "output_config" else given}
    asked = parsed(**params)
    assert asked.content_format is not None
    expected = "output_config.format.schema" if place == "output_config" else "output_format.schema"
    assert asked.content_format.param == expected


CASES: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"nonsense": 1}, "nonsense"),
    ({"thread": {"type": "create"}}, "thread"),
    ({"container": "c"}, "container"),
    ({"mcp_servers": [{"type": "url"}]}, "mcp_servers[0].url"),
    ({"speed": "fast"}, "speed"),
    ({"logprobs": True}, "logprobs"),
    ({"n": 2}, "n"),
    ({"stop": ["a"]}, "stop"),
    ({"system": 3}, "system"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "often"}}, "thinking.type"),
    ({"thinking": {}}, "thinking.type"),
    ({"output_config": {"effort": "none"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    (
        {
            "output_format": {"type": "json_schema", "schema": SCHEMA},
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
        "output_format",
    ),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "any", "name": "look"}}, "tool_choice.name"),
    (
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
        "tool_choice.disable_parallel_tool_use",
    ),
    ({"tools": [3]}, "tools[0]"),
    ({"tools": [{"name": "look"}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "look", "input_schema": []}]}, "tools[0].input_schema"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({"tools": [{**LOOK, "name": "no spaces"}]}, "tools[0].name"),
    ({"tools": [LOOK, LOOK | {"description": "Another one."}]}, "tools[1].name"),
    ({"tools": [{**LOOK, "strict": 1}]}, "tools[0].strict"),
    ({"tools": [{**LOOK, "defer_loading": "yes"}]}, "tools[0].defer_loading"),
    ({"tools": [{**LOOK, "allowed_callers": ["code_execution_20250825"]}]},
     "tools[0].allowed_callers"),
    ({"tools": [{**LOOK, "color": "red"}]}, "tools[0].color"),
    ({"tools": [{"type": "bash_20990101", "name": "bash"}]}, "tools[0].type"),
    ({"context_management": {"edits": [{"type": "shorten_20260112"}]}},
     "context_management.edits[0].type"),
    ({"stop_sequences": [""]}, "stop_sequences"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "param"), CASES)
def test_invalid_parameters_are_refused_at_their_path(params: dict[str, Any], param: str) -> None:
    assert refused(**params).param == param


def test_a_tool_may_have_fields_without_effect() -> None:
    more = {"type": "custom", "cache_control": {"type": "ephemeral"}, "defer_loading": False,
            "allowed_callers": ["direct"], "input_examples": [{"a": 1}]}  # fmt: skip
    asked = parsed(tools=[{**LOOK, **more}])
    assert asked.tools[0].definition == {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object"}},
    }


USES, THOUGHTS = "clear_tool_uses_20250919", "clear_thinking_20251015"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"type": USES}, ClearToolUses(USES)),
        (
            {
                "type": USES,
                "trigger": {"type": "tool_uses", "value": 7},
                "keep": {"type": "tool_uses", "value": 0},
                "clear_at_least": {"type": "input_tokens", "value": 50},
                "exclude_tools": ["look"],
                "clear_tool_inputs": True,
            },
            ClearToolUses(USES, 7, "tool_uses", 0, 50, frozenset({"look"}), inputs=True),
        ),
        (
            {"type": USES, "clear_tool_inputs": ["walk"], "clear_at_least": None, "keep": None},
            ClearToolUses(USES, inputs=frozenset({"walk"})),
        ),
        ({"type": THOUGHTS}, ClearThinking(THOUGHTS, 1)),
        ({"type": THOUGHTS, "keep": "all"}, ClearThinking(THOUGHTS, None)),
        ({"type": THOUGHTS, "keep": {"type": "all"}}, ClearThinking(THOUGHTS, None)),
        (
            {"type": THOUGHTS, "keep": {"type": "thinking_turns", "value": 2}},
            ClearThinking(THOUGHTS, 2),
        ),
    ],
)
def test_edits_that_shorten_a_conversation_are_read(edit: Any, expected: Any) -> None:
    assert parsed(context_management={"edits": [edit]}).edits == (expected,)


@pytest.mark.parametrize(
    ("edit", "param"),
    [
        ({"type": USES, "keep": {"type": "messages", "value": 1}}, ".keep.type"),
        ({"type": USES, "keep": {"type": "tool_uses"}}, ".keep.value"),
        ({"type": USES, "trigger": {"type": "input_tokens", "value": -1}}, ".trigger.value"),
        ({"type": USES, "clear_at_least": 5}, ".clear_at_least"),
        ({"type": USES, "clear_tool_inputs": "all"}, ".clear_tool_inputs"),
        ({"type": USES, "exclude_tools": [5]}, ".exclude_tools"),
        ({"type": USES, "unknown": 1}, ".unknown"),
        ({"type": THOUGHTS, "keep": "none"}, ".keep"),
        ({"type": THOUGHTS, "keep": {"type": "tool_uses", "value": 1}}, ".keep.type"),
        ({"type": THOUGHTS, "trigger": None, "other": 1}, ".other"),
        ({"keep": "all"}, ".type"),
    ],
)
def test_a_wrong_member_of_an_edit_is_named(edit: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(context_management={"edits": [edit]})
    assert refused.value.param == f"context_management.edits[0]{param}"


@pytest.mark.parametrize(
    ("defaults", "body", "expected"),
    [
        ({"stop": "x"}, {}, {"stop_sequences": ["x"]}),
        ({"max_completion_tokens": 5}, {}, {"max_tokens": 5}),
        ({"max_tokens": 5}, {"max_tokens": 9}, {"max_tokens": 9}),
        ({"reasoning_effort": "none"}, {}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "minimal"}, {}, {"output_config": {"effort": "low"}}),
        (
            {"reasoning_effort": "high"},
            {"output_config": {"format": {}}},
            {"output_config": {"effort": "high", "format": {}}},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            {},
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        ),
        ({"n": 2, "stream_options": {}, "metadata": {"a": "b"}}, {}, {}),
        ({"user": "u"}, {}, {"user": "u"}),
        ({"temperature": 0.1}, {"temperature": None}, {"temperature": 0.1}),
    ],
)
def test_defaults_of_a_deployment_have_the_names_of_this_api(
    defaults: Mapping[str, Any], body: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    assert Messages().with_defaults(body, defaults) == expected


def test_errors_of_the_engine_are_in_the_words_of_this_api() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}
    asked = parsed(
        [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}],
            },
            {"role": "user", "content": [result, {"type": "text", "text": "a"}, image]},
        ],
        system="s",
    )

    def words(text: str) -> str:
        shown: str = error_body(InvalidRequest(text, param=text), asked, "r")["error"]["param"]
        return shown

    assert words("messages[3].content[0].image_url") == ("messages[2].content[0].content[0].source")
    assert words("messages[4].content[1].image_url") == "messages[2].content[2].source"
    assert words("messages[0]") == "system"
    assert words("messages[1]") == "messages[0]"
    assert words("messages") == "messages"
    assert words("continue_final_message") == "messages[2]"
    assert words("response_format") == "output_config.format"


def test_the_rejection_of_a_thread_makes_sdks_continue_without() -> None:
    error = refused(thread={"type": "create"})
    details = error_body(error, None, None)["error"]["details"]
    assert details["error_code"] == "thread_unsupported_request"


@pytest.mark.parametrize(
    ("error", "kind"), [(ModelNotFound("No.", param="model"), "not_found_error")]
)
def test_types_of_errors(error: ToolgateError, kind: str) -> None:
    body = Messages().error(error, None, "req_1")
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, "req_1")
    assert (body["error"]["code"], body["error"]["param"]) == ("model_not_found", "model")


def test_tools_of_the_request_are_not_reordered() -> None:
    asked = parsed(tools=[WALK, LOOK])
    assert [tool.name for tool in asked.tools] == ["walk", "look"]
    assert [tool.param for tool in asked.tools] == [
        "tools[0].input_schema",
        "tools[1].input_schema",
    ]
