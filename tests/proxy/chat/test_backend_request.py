"""The message to a backend: the grammars that it needs, seeds, tools and batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.servers.fake_backend import INFO
from toolgate_backend.endpoint.admission import needed_sources
from toolgate_core import wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import content_format, parse_tools
from toolgate_proxy.chat.constraints import Constraints
from toolgate_proxy.chat.invalid_tools import without
from toolgate_proxy.chat.preparation import PreparedRequest, chat_prompt
from toolgate_proxy.context import Notes
from toolgate_proxy.grammars.service import NeededGrammars
from toolgate_proxy.request.chat_request import ChatRequest, Extras
from toolgate_proxy.request.plan import make_plan

QWEN3 = DIALECTS["qwen3"]


LOOK, WALK = parse_tools(
    [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("look", "walk")
    ]
)
CONTENT = content_format({"type": "object"}, param="response_format")
REQUEST = ChatRequest(
    request_id="chatcmpl-1",
    model="tiny",
    messages=(),
    tools=(LOOK, WALK),
    content_format=CONTENT,
    extras=Extras(trace=True),
)
PLAN = make_plan(REQUEST, QWEN3)
NEEDED = NeededGrammars(
    {tool.hash: f"key of {tool.hash}" for tool in PLAN.grammars}, {}, owner="who"
)


def message_of(
    request: ChatRequest, needed: NeededGrammars = NEEDED, *, opens: bool = False, **how: bool
) -> wire.GenerateRequest:
    constraints = Constraints(PreparedRequest(request, INFO, QWEN3, PLAN), needed, None, opens)
    return constraints.message(None, **how)


def test_a_grammar_is_named_by_its_place_or_has_its_source():
    """Content has no place."""
    message = message_of(REQUEST)
    assert message.enforcement is not None
    wanted = [candidate.key for candidate in message.enforcement.candidates]
    look, walk, content = message.grammars
    assert [look.key, walk.key, content.key] == [*wanted, message.enforcement.content]
    assert [(each.tool, each.source, each.owner) for each in (look, walk)] == [
        (0, None, "who"),
        (1, None, "who"),
    ]
    assert (content.tool, content.owner) == (None, "who")
    assert content.source is not None
    assert content.source.key == content.key
    assert content.source.parameters == CONTENT.parameters


def test_what_a_backend_cannot_read_in_the_prompt_has_its_source():
    """A tool that the prompt doesn't list yet."""
    request = replace(REQUEST, listed_tools=(WALK,))
    look, walk, _ = message_of(request).grammars
    assert (look.tool, walk.tool, walk.source) == (None, 0, None)
    assert look.source is not None
    assert (look.source.name, look.source.parameters) == ("look", LOOK.parameters)


def test_a_verdict_from_redis_is_sent():
    key = NEEDED.keys[LOOK.hash]
    verdict = wire.GrammarVerdict(key=key, status="ready", least_tokens=9)
    needed = replace(NEEDED, records={key: verdict})
    look, walk, _ = message_of(REQUEST, needed).grammars
    assert (look.tool, look.source, look.examined) == (0, None, verdict)
    assert (walk.tool, walk.source, walk.examined) == (1, None, None)


def test_verdicts_are_asked_for_where_they_are_not_known():
    """The response is a stream, so that an invalid call can be sampled again."""
    key = NEEDED.keys[WALK.hash]
    message = message_of(REQUEST, replace(NEEDED, unknown=frozenset({key})))
    assert [each.report for each in message.grammars] == [False, True, False]
    assert message.stream
    assert not message_of(REQUEST).stream


@pytest.mark.parametrize("open_objects", [False, True])
def test_the_backend_reads_schemas_as_the_gateway_does(open_objects):
    message = message_of(REQUEST, opens=open_objects)
    assert message.open_objects is open_objects
    tools = parse_tools([LOOK.definition, WALK.definition], open_objects=open_objects)
    sources = [source() for source in needed_sources(message).values()]
    assert [each.parameters for each in sources[:2]] == [each.parameters for each in tools]


@pytest.mark.parametrize("seed", [None, 1])
def test_ids_of_turns_with_the_same_seed_differ(seed):
    def id_seed(*calls: int, request_id: str) -> str:
        messages = tuple({"role": "assistant", "tool_calls": [{}] * each} for each in calls)
        sampling = REQUEST.sampling.model_copy(update={"seed": seed})
        request = replace(REQUEST, request_id=request_id, messages=messages, sampling=sampling)
        enforcement = message_of(request).enforcement
        assert enforcement is not None
        return enforcement.id_seed

    turns = [id_seed(*[2] * number, request_id=f"chatcmpl-{number}") for number in range(3)]
    assert len({*turns}) == 3
    again = id_seed(2, request_id="chatcmpl-9")
    assert (again == turns[1]) is (seed is not None)


@pytest.mark.parametrize("trace", [False, True])
def test_a_trace_is_asked_for_only_if_the_request_has_one(trace):
    message = message_of(replace(REQUEST, extras=Extras(trace=trace)))
    assert ('"trace":true' in message.model_dump_json(exclude_none=True)) is trace


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
    left = without(replace(request, listed_tools=(LOOK,)), {"look": error}, Notes())
    assert (left.tools, left.prompt_tools) == ((WALK,), ())
    assert left.messages[0] == request.messages[0]
    assert left.messages[1]["content"][0]["tools"] == [WALK.definition]


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize(
    ("asked", "stream", "batched"),
    [
        ({}, None, True),
        ({"stream": True}, True, False),
        ({"stop": ("x",)}, True, False),
        ({"sampling": wire.Sampling(stop_token_ids=(3,))}, True, False),
    ],
)
def test_a_whole_response_is_a_stream_of_batches_where_tokens_count(
    metered, asked, stream, batched
):
    """`stream`: None if it depends on whether a limit counts tokens."""
    message = message_of(replace(REQUEST, **asked), metered=metered)
    assert message.stream is (metered if stream is None else stream)
    assert message.batched is (metered and batched)
