"""A request means the same in every API that can express it: the same messages for the template,
tools, sampling and enforcement."""

import copy
import dataclasses
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.long.fuzz.checks import values_of
from tests.support.apis.chat_events import read
from tests.support.apis.messages_api import CLIENT, LOOK, SEAL, check_error
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
from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidRequest
from toolgate_core.plan import make_plan
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS as CHAT
from toolgate_proxy.api.messages.opaque import sign
from toolgate_proxy.api.messages.parameters import BY_NAME as MESSAGES
from toolgate_proxy.api.responses.parameters import BY_NAME as RESPONSES
from toolgate_proxy.api.surfaces import SURFACES

from .kit import APIS, changes, each_api, field_of, parsed, rows

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
    for name, examples in values_of(CHAT).sampling.items()
    if name in RESPONSES and name in MESSAGES
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


# --- a request with any JSON anywhere is parsed or refused, and a refusal names a field -----------

DAMAGED = ROWS["messages"] | {
    "tools": [LOOK | {"description": "d", "strict": True, "eager_input_streaming": True}]
}
DAMAGED["messages"][1]["content"][0]["signature"] = sign(SEAL, "hm")
WORDS = ROWS["words"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for name, each in inner:
        found.append((*path, name))
        if isinstance(each, dict | list):
            found += places(each, (*path, name))
    return found


BY_CHAT, BY_RESPONSES, _ = bodies(RICH).values()
BODIES = {"chat": BY_CHAT, "responses": BY_RESPONSES, "messages": DAMAGED}
PLACES = {api: places(body) for api, body in BODIES.items()}


@each_api()
def test_the_body_is_valid_before_it_is_damaged(api):
    roles = [each["role"] for each in parsed(api, BODIES[api]).messages]
    if api == "messages":
        assert roles == ["system", "user", "assistant", "tool", "system", "user", "assistant"]
    else:
        assert roles == ["system", "user", "assistant", "tool", "assistant"]


@pytest.mark.exhaustive
@each_api()
@settings(deadline=None, max_examples=repeats(40, nightly=400))
@given(data=st.data())
def test_a_damaged_request_is_parsed_or_refused(api, data):
    body = copy.deepcopy(BODIES[api])
    damage = st.tuples(st.sampled_from(PLACES[api]), JSON, st.booleans())
    for path, value, removed in data.draw(st.lists(damage, min_size=1, max_size=3)):
        at = body
        try:
            for name in path[:-1]:
                at = at[name]
            if removed:
                del at[path[-1]]
            else:
                at[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier damage removed the place
    try:
        asked = parsed(api, body)
    except InvalidRequest as error:
        shown = APIS[api].error(error, "req_1")
        assert shown["error"]["param"]
        if api == "messages":
            check_error(shown)
        return
    assert len(asked.messages) == len(asked.message_paths)
    if api == "messages":
        assert len(asked.messages) == len(field_of(asked, "part_paths"))
