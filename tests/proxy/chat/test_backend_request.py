"""The message to a backend: sources of grammars whose masks are traced, seeds, tools, batches, and
the names of kept answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.errors import InvalidRequest
from toolgate_core.plan import make_plan
from toolgate_core.tools import content_format, parse_tools
from toolgate_proxy.chat.answers import name_of
from toolgate_proxy.chat.constraints import backend_request, chat_prompt
from toolgate_proxy.chat.request.invalid_tools import without
from toolgate_proxy.grammars.service import LoadedGrammars

LOOK, WALK = parse_tools(
    [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("look", "walk")
    ]
)
REQUEST = ChatRequest(
    request_id="chatcmpl-1",
    model="tiny",
    messages=(),
    tools=(LOOK, WALK),
    content_format=content_format({"type": "object"}, param="response_format"),
    trace=True,
)
PLAN = make_plan(REQUEST, QWEN3)
LOADED = LoadedGrammars(
    {tool.hash: f"key of {tool.hash}" for tool in PLAN.grammars}, {}, "memory", 0
)


def test_a_trace_has_the_source_of_each_grammar():
    message = backend_request(REQUEST, PLAN, LOADED, None)
    assert message.trace is not None
    assert message.enforcement is not None
    wanted = {candidate.key for candidate in message.enforcement.candidates}
    assert {each.key for each in message.trace.grammars} == wanted | {message.enforcement.content}
    by_name = {each.name: each.parameters for each in message.trace.grammars}
    assert by_name["look"] == LOOK.parameters


@pytest.mark.parametrize("seed", [None, 1])
def test_ids_of_turns_with_the_same_seed_differ(seed):
    def id_seed(*calls: int, request_id: str) -> str:
        messages = tuple({"role": "assistant", "tool_calls": [{}] * each} for each in calls)
        sampling = REQUEST.sampling.model_copy(update={"seed": seed})
        request = replace(REQUEST, request_id=request_id, messages=messages, sampling=sampling)
        enforcement = backend_request(request, PLAN, LOADED, None).enforcement
        assert enforcement is not None
        return enforcement.id_seed

    turns = [id_seed(*[2] * number, request_id=f"chatcmpl-{number}") for number in range(3)]
    assert len({*turns}) == 3
    again = id_seed(2, request_id="chatcmpl-9")
    assert (again == turns[1]) is (seed is not None)


def test_without_a_trace_no_sources_are_sent():
    message = backend_request(replace(REQUEST, trace=False), PLAN, LOADED, None)
    assert message.trace is None
    assert b"trace" not in message.model_dump_json(exclude_none=True).encode()


def test_the_prompt_lists_the_tools_of_the_beginning():
    found = replace(REQUEST, listed_tools=(LOOK,))
    assert [*(chat_prompt(found).tools or ())] == [LOOK.definition]
    assert [*(chat_prompt(REQUEST).tools or ())] == [LOOK.definition, WALK.definition]
    assert [tool.name for tool in make_plan(found, QWEN3).candidates] == ["look", "walk"]
    assert chat_prompt(replace(REQUEST, listed_tools=())).tools is None


def test_a_tool_that_is_left_out_is_shown_nowhere():
    definitions = {"type": "tool_definitions", "tools": [LOOK.definition, WALK.definition]}
    result = {"role": "tool", "tool_call_id": "c", "content": [definitions]}
    request = replace(REQUEST, messages=({"role": "user", "content": "hi"}, result))
    error = InvalidRequest("No.", param="tools[0]")
    left = without(replace(request, listed_tools=(LOOK,)), {"look": error})
    assert (left.tools, left.prompt_tools) == ((WALK,), ())
    assert left.messages[0] == request.messages[0]
    assert left.messages[1]["content"][0]["tools"] == [WALK.definition]


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize(
    ("asked", "stream", "batched"),
    [
        ({}, None, True),
        ({"stream": True}, True, None),
        ({"stop": ("x",)}, True, None),
        ({"sampling": wire.Sampling(stop_token_ids=(3,))}, True, None),
    ],
)
def test_a_whole_response_is_a_stream_of_batches_where_tokens_count(
    metered, asked, stream, batched
):
    """`stream`: None if it depends on whether a limit counts tokens."""
    message = backend_request(replace(REQUEST, **asked), PLAN, LOADED, None, metered=metered)
    assert message.stream is (metered if stream is None else stream)
    assert message.batched is (batched if metered else None)


PROMPT = wire.ChatPrompt(messages=({"role": "user", "content": "hi"},))
OTHER_PROMPT = wire.ChatPrompt(messages=({"role": "user", "content": "ho"},))
SEEDED = wire.Sampling(seed=7)


def enforcement(key: str = "a", **fields: Any) -> wire.Enforcement:
    candidate = wire.Candidate(name="look", key=key)
    given = {"choice": "auto", "candidates": (candidate,), "id_seed": "x"} | fields
    return wire.Enforcement(**given)


def name_with(**fields: Any) -> str | None:
    given = {"request_id": "a", "model": "tiny", "prompt": PROMPT, "enforcement": enforcement()}
    return name_of(wire.GenerateRequest(**given | fields), INFO)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"request_id": "b"}, True),
        ({"stream": False}, True),
        ({"priority": 3}, True),
        ({"enforcement": enforcement(id_seed="y")}, True),
        ({"model": "large"}, False),
        ({"prompt": OTHER_PROMPT}, False),
        ({"sampling": wire.Sampling(temperature=0.5)}, False),
        ({"enforcement": enforcement(choice="required")}, False),
        ({"enforcement": enforcement("b")}, False),
        ({"enforcement": enforcement(content="c")}, False),
        ({"enforcement": None}, False),
        ({"accepted": (1, 2)}, False),
        ({"cache_salt": "salt"}, False),
        ({"return_prompt_ids": True}, False),
    ],
    ids=str,
)
def test_requests_with_the_same_answer_have_one_name_for_it(fields, same):
    assert (name_with(**fields) == name_with()) is same


def test_the_seed_of_the_request_decides_about_the_seed_of_ids():
    seeds = (enforcement(id_seed=f"seed 7, {at}") for at in range(2))
    assert len({name_with(sampling=SEEDED, enforcement=each) for each in seeds}) == 2


@pytest.mark.parametrize(
    "field", ["model", "vllm_version", "adapter", "tokenizer", "grammar_format"]
)
def test_answers_of_other_backends_have_other_names(field):
    given = wire.GenerateRequest(request_id="a", model="tiny", prompt=PROMPT)
    assert name_of(given, INFO.model_copy(update={field: "x"})) != name_of(given, INFO)
