"""A request means the same in every API that can express it: the same messages for the template,
tools, sampling and enforcement."""

import dataclasses
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.long.fuzz.checks import values_of
from tests.support.apis.chat_events import read
from tests.support.apis.messages_api import CLIENT
from tests.support.apis.neutral_bodies import (
    Assistant,
    Call,
    NeutralRequest,
    Result,
    Thinking,
    User,
    bodies,
)
from tests.support.effort import repeats
from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.api.shared.parameter import CHAT_TABLE, MESSAGES_TABLE, RESPONSES_TABLE
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.request.plan import make_plan

from .kit import changes, rows

QWEN3 = DIALECTS["qwen3"]
ROWS = rows("same_request")
BY_NAME = {surface.name: surface for surface in SURFACES}
OWN = {
    "request_id": "an id of the API",
    "message_paths": "paths in the body",
    "include_reasoning": "the Messages API shows reasoning only if it is asked for",
    "options": "clients of the Messages API must send some `max_tokens`",
}
"""Fields that differ between APIs, and why."""
MAY_DIFFER = ("include_reasoning", "options")
"""Fields in which only the Messages API differs."""
COMPARED = [each.name for each in dataclasses.fields(ChatRequest) if each.name not in OWN]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NAMES = ["look", "walk", "a.b-c"]
SCHEMAS = ROWS["schemas"]
SCHEMA = st.sampled_from(SCHEMAS)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(-9, 9) | TEXTS | st.none() | st.lists(TEXTS))
SAMPLING = {
    name: examples
    for name, examples in values_of(CHAT_TABLE.values()).sampling.items()
    if name in RESPONSES_TABLE and name in MESSAGES_TABLE
}
MORE = ROWS["parameters"]
SHARED = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in (SAMPLING | MORE).items()}
)


@st.composite
def conversations(draw):
    """The turns alternate, because the Messages API joins consecutive messages of one role."""
    turns = []
    made = 0
    for _ in range(draw(st.integers(0, 3))):
        turns.append(draw(_users()))
        while draw(st.booleans()):
            ids = [f"call_{made + at:024d}" for at in range(draw(st.integers(1, 3)))]
            made += len(ids)
            turns.append(draw(_assistants(ids)))
            results = [Result(each, draw(_texts())) for each in ids]
            turns.append(tuple(draw(st.permutations(results))))
        turns.append(draw(_assistants([])))
    if not turns or draw(st.booleans()):
        turns.append(draw(_users()))
    return tuple(turns)


def _texts():
    return st.lists(TEXTS, min_size=1, max_size=2).map(tuple)


def _users():
    return st.builds(User, _texts(), st.booleans())


@st.composite
def _assistants(draw, ids):
    calls = tuple(Call(each, draw(st.sampled_from(NAMES)), draw(ARGUMENTS)) for each in ids)
    text = draw(TEXTS) if not calls or draw(st.booleans()) else ""
    return Assistant(draw(st.just("") | TEXTS), text, calls)


@st.composite
def _tools(draw):
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        tool = {"name": name}
        if draw(st.booleans()):
            tool["description"] = draw(TEXTS)
        tool["parameters"] = draw(SCHEMA)
        if draw(st.booleans()):
            tool["strict"] = draw(st.booleans())
        made.append(tool)
    return tuple(made)


@st.composite
def requests(draw):
    tools = draw(_tools())
    names = st.sampled_from([tool["name"] for tool in tools]) if tools else st.nothing()
    kind = draw(st.sampled_from(["mode", "named", "allowed"])) if tools else "mode"
    thinking = st.builds(Thinking, st.booleans()) | st.one_of(
        st.builds(Thinking, st.just(True), effort=st.sampled_from(["low", "medium", "xhigh"])),
        st.builds(Thinking, st.just(True), budget=st.sampled_from([1, 5000])),
    )
    choices = ["none", "auto", "required"] if tools else ["auto"]
    return NeutralRequest(
        turns=draw(conversations()),
        max_tokens=draw(st.integers(1, 5000)),
        system=draw(st.just("") | TEXTS),
        tools=tools,
        choice=draw(st.sampled_from(choices[1:] if kind == "allowed" else choices)),
        named=draw(names) if kind == "named" else None,
        allowed=tuple(draw(st.lists(names, min_size=1, unique=True))) if kind == "allowed" else (),
        parallel=draw(st.booleans()),
        format=draw(st.none() | SCHEMA),
        thinking=draw(st.none() | thinking),
        stop=tuple(draw(st.lists(TEXTS, max_size=2))),
        top_logprobs=draw(st.none() | st.none() | st.integers(0, 3)),
        shared=draw(SHARED),
    )


RICH = NeutralRequest(
    turns=(
        User(("a", "b"), image=True),
        Assistant("hm", "I look.", (Call("call_" + "1" * 24, "look", {"é": [1]}),)),
        (Result("call_" + "1" * 24, ("x", "y"), image=True),),
        Assistant("", "So", ()),
    ),
    max_tokens=100,
    system="s",
    tools=({"name": "look", "description": "d", "parameters": SCHEMAS[1], "strict": True},),
    choice="required",
    parallel=False,
    format=SCHEMAS[2],
    thinking=Thinking(on=True, effort="low"),
    stop=("x",),
    shared={name: values[-1] for name, values in (SAMPLING | MORE).items()},
)
"""With all features that all APIs have."""


@pytest.mark.exhaustive
@example(RICH)
@example(dataclasses.replace(RICH, named="look", thinking=Thinking(on=True, budget=9)))
@example(dataclasses.replace(RICH, allowed=("look",), top_logprobs=2, thinking=Thinking(on=False)))
@settings(deadline=None, max_examples=repeats(40, nightly=200))
@given(requests())
def test_a_request_means_the_same_in_every_api(asked):
    parsed = {
        name: read(BY_NAME[name], body, client=CLIENT) for name, body in bodies(asked).items()
    }
    first, *others = parsed
    for other in others:
        for name in COMPARED if other == "messages" else [*COMPARED, *MAY_DIFFER]:
            assert getattr(parsed[first], name) == getattr(parsed[other], name), (name, other)
        assert make_plan(parsed[first], QWEN3) == make_plan(parsed[other], QWEN3), other


def test_a_damaged_history_means_the_same_in_every_api():
    made = bodies(dataclasses.replace(RICH, top_logprobs=None))
    chat, responses, messages = (made[surface.name] for surface in SURFACES)
    cut = '{"é": [1'
    call = next(each for each in chat["messages"] if each.get("tool_calls"))["tool_calls"][0]
    call["function"]["arguments"] = cut
    item = next(each for each in responses["input"] if each.get("type") == "function_call")
    item["arguments"] = cut
    turns = [each for each in messages["messages"] if isinstance(each["content"], list)]
    block = next(b for turn in turns for b in turn["content"] if b["type"] == "tool_use")
    block["input"] = cut
    parsed = [read(BY_NAME[name], body, client=CLIENT) for name, body in made.items()]
    assert [[kind for kind, _ in changes(each)] for each in parsed] == [["arguments"]] * 3
    first, *others = (each.messages for each in parsed)
    assert all(other == first for other in others)
    assert '"arguments": "{}"' in json.dumps(first)
