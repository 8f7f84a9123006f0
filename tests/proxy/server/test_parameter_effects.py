"""Each parameter and member of the parameter tables has an effect, is refused, or is documented as
ignored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.outcomes import CALLING, HELLO, SCHEMA, Outcome, outcome
from tests.support.apis.value_examples import Example, examples_of
from tests.support.litellm.own_route import Gateway
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS as CHAT_PARAMETERS
from toolgate_proxy.api.messages.parameters import PARAMETERS as MESSAGES_PARAMETERS
from toolgate_proxy.api.responses.parameters import LOGPROBS
from toolgate_proxy.api.responses.parameters import PARAMETERS as RESPONSES_PARAMETERS
from toolgate_proxy.api.shared.parameter import Parameter

TABLES = {
    "chat": CHAT_PARAMETERS,
    "responses": RESPONSES_PARAMETERS,
    "messages": MESSAGES_PARAMETERS,
}
LOOK = {"name": "look", "parameters": SCHEMA}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "chat": [{"type": "function", "function": LOOK}],
    "responses": [{"type": "function", **LOOK}],
    "messages": [{"name": "look", "input_schema": SCHEMA}],
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
NAMED = {"name": "x", "schema": SCHEMA}
CLEAR_ALL = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "tool_uses", "value": 0},
    "keep": {"type": "tool_uses", "value": 0},
}
CALLED = [
    *HELLO,
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "A bridge."},
        {"type": "text", "text": "hi"}]},
]  # fmt: skip
"""A conversation with the result of a call, in Anthropic's form."""
TURN = [*HELLO, {"role": "assistant", "content": "Well"}]

VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "chat": {
        "model": ("other one",),
        "messages": ([{"role": "user", "content": "ho"}],),
        "functions": ([LOOK],),
        "function_call": ("none", {"name": "look"}),
        "response_format.": (
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": NAMED},
        ),
        "response_format.json_schema.": (NAMED,),
        "response_format.json_schema.schema": ({"type": "object"},),
        "response_format.schema": (SCHEMA,),
    },
    "responses": {
        "model": ("other one",),
        "input": ("ho",),
        "include": ([LOGPROBS],),
        "text.format.": ({"type": "json_schema", **NAMED},),
        "text.format.schema": ({"type": "object"},),
        "metadata": ({"a": "b"},),
        "context_management": ([{"type": "compaction", "compact_threshold": 1000}],),
    },
    "messages": {
        "model": ("other one",),
        "messages": ([{"role": "user", "content": "ho"}],),
        "system": ("Be brief.",),
        "tool_choice": ({"type": "none"},),
        "thinking.": ({"type": "adaptive"},),
        "output_config.format.": (FORMAT,),
        "output_config.format.schema": ({"type": "object"},),
        "output_format.": (FORMAT,),
        "output_format.schema": ({"type": "object"},),
        "cache_control": ({"type": "ephemeral"},),
        "context_management.edits": ([CLEAR_ALL],),
    },
}
"""Values of parameters whose types have no examples. `path.`: the object around the members."""
SHARED_VALUES: dict[str, tuple[Any, ...]] = {
    "tool_choice": ("none", "required"),
    "documents": ([{"title": "a", "text": "b"}],),
    "chat_template_kwargs": ({"a": 1},),
    "structured_outputs": ({"json": SCHEMA}, {"choice": ["a"]}, {"regex": "a"}),
    "fallbacks": (["other one"],),
    "guardrails": (["no-names"],),
    "litellm_metadata": ({"a": 1},),
    "cache": ({"no-cache": True},),
    "stop": (["there"],),
    "stop_sequences": (["there"],),
    "allowed_token_ids": ([300],),
    "repetition_detection.": ({"max_pattern_size": 3},),
}
BESIDE: dict[str, dict[str, Any]] = {
    "stream_options": {"stream": True},
    "stream_options.toolgate_call_done": {"stream": True, "messages": CALLING},
    "top_logprobs": {"logprobs": True},
    "logprob_token_ids": {"logprobs": True},
    "include_stop_str_in_output": {"stop": ["there"]},
    "echo": {"messages": TURN, "continue_final_message": True},
    "continue_final_message": {"messages": TURN},
    "function_call": {"functions": [LOOK]},
    "return_tokens_as_token_ids": {"logprobs": True},
}
BESIDE_OF: dict[str, dict[str, dict[str, Any]]] = {
    "chat": {},
    "responses": {
        "top_logprobs": {"include": [LOGPROBS]},
        "logprob_token_ids": {"include": [LOGPROBS]},
        "return_tokens_as_token_ids": {"include": [LOGPROBS]},
        "echo": {"input": TURN, "continue_final_message": True},
        "continue_final_message": {"input": TURN},
        "context_management": {"input": [*TURN, *HELLO], "max_output_tokens": 4086},
    },
    "messages": {
        "include_stop_str_in_output": {"stop_sequences": ["there"]},
        "context_management.edits": {"messages": CALLED},
    },
}
REFUSED = {
    "previous_response_id": "there is no such response",
    "background": "this gateway has no Redis: server/background/",
    "model": "there is no such model",
}
"""Examples of supported parameters that are refused, and why."""
ELSEWHERE = {
    "fallbacks": "other models: server/fallbacks/",
    "guardrails": "guardrails: server/guards/",
    "tags": "the choice of a deployment: server/test_litellm_parameters.py",
    "cache": "the response cache: server/test_response_cache.py",
    "prompt_cache_key": "the choice of a deployment: process/test_routing.py",
    "max_tool_calls": "calls that the gateway runs: server/test_tool_calls.py",
}
"""What has its effect elsewhere."""


Case = tuple[str, Parameter, str]
"""An API, a row of its table, and the path of the parameter or of a member."""


def examples(api: str, row: Parameter) -> list[Example]:
    return [*examples_of(row, SHARED_VALUES | VALUES[api] | {"tools": (TOOLS[api],)})]


def beside(api: str, path: str) -> dict[str, Any]:
    """Other parameters without which this one has no effect."""
    offering = {"tools": TOOLS[api]}
    known = BESIDE | {"tool_choice": offering, "parallel_tool_calls": offering} | BESIDE_OF[api]
    found = known.get(path, known.get(path.partition(".")[0], {}))
    return found | offering if found.get("messages") == CALLING else found


def is_ignored(row: Parameter, path: str) -> bool:
    inner = path.partition(".")[2]
    return row.support == "ignored" or inner in row.without_effect or inner == "others"


CASES: list[Case] = [
    (api, row, path)
    for api, table in TABLES.items()
    for row in table
    for path in dict.fromkeys(example.path for example in examples(api, row))
]
IGNORED = [case for case in CASES if is_ignored(case[1], case[2])]
SUPPORTED = [case for case in CASES if case[1].support == "supported" and case not in IGNORED]
OTHERS = [case for case in CASES if case not in IGNORED and case not in SUPPORTED]


def ids(cases: list[Case]) -> list[str]:
    return [f"{api} {path}" for api, _, path in cases]


async def outcomes(
    gateway: Gateway, api: str, row: Parameter, path: str
) -> list[tuple[Outcome, Outcome]]:
    """Of each example, without and with it."""
    found = [example for example in examples(api, row) if example.path == path]
    made = []
    for _, value, without in found:
        bodies = ({} if without is None else {row.name: without}, {row.name: value})
        first, second = [await outcome(gateway, api, beside(api, path) | body) for body in bodies]
        made.append((first, second))
    assert made
    return made


@pytest.mark.parametrize(("api", "row", "path"), SUPPORTED, ids=ids(SUPPORTED))
async def test_a_supported_parameter_has_an_effect(
    gateway: Gateway, api: str, row: Parameter, path: str
) -> None:
    made = await outcomes(gateway, api, row, path)
    if path in ELSEWHERE:
        assert all(first.sent == second.sent for first, second in made)
    elif path in REFUSED:
        assert any(second.status != 200 for _, second in made)
    else:
        assert any(first != second and second.status < 300 for first, second in made)


@pytest.mark.parametrize(("api", "row", "path"), IGNORED, ids=ids(IGNORED))
async def test_an_ignored_parameter_is_accepted_and_changes_nothing_that_is_sent_to_the_model(
    gateway: Gateway, api: str, row: Parameter, path: str
) -> None:
    made = await outcomes(gateway, api, row, path)
    # A member that is required, such as the name of a schema, can't be left out.
    accepted = [pair for pair in made if pair[1].status == 200]
    assert accepted
    assert all(first.sent == second.sent for first, second in accepted if first.status == 200)


@pytest.mark.parametrize(("api", "row", "path"), OTHERS, ids=ids(OTHERS))
async def test_an_unsupported_parameter_is_refused_unless_it_is_its_default(
    gateway: Gateway, api: str, row: Parameter, path: str
) -> None:
    made = await outcomes(gateway, api, row, path)
    for example, (first, second) in zip(examples(api, row), made, strict=True):
        if example.value in row.defaults:
            assert first == second
        else:
            assert second.status == 400
