"""A request with any JSON anywhere is parsed or refused, and a refusal names a field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.apis.messages_api import LOOK, SEAL, check_error
from tests.support.apis.neutral_bodies import bodies
from tests.support.effort import repeats
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.messages.conversation.signature import sign

from .kit import APIS, Json, each_api, parsed
from .test_same_request import RICH

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
TEXT = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
MESSAGES: Json = {
    "model": "tiny",
    "max_tokens": 100,
    "system": [TEXT],
    "messages": [
        {"role": "user", "content": [TEXT, {"type": "image", "source": PNG}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": sign(SEAL, "hm")},
                {"type": "redacted_thinking", "data": "x"},
                TEXT,
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": [1]}},
            ],
        },
        {"role": "system", "content": "b"},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [
                        TEXT,
                        {
                            "type": "document",
                            "title": "t",
                            "source": {"type": "content", "content": [TEXT]},
                        },
                        {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]},
                    ],
                },
                {"type": "document", "source": {"type": "text", "data": "d"}},
            ],
        },
        {"role": "assistant", "content": "so"},
    ],
    "tools": [LOOK | {"description": "d", "strict": True, "eager_input_streaming": True}],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
    "output_config": {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {"type": "object"}},
    },
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "metadata": {"user_id": "u"},
    "stop_sequences": ["x"],
}
WORDS = ["text", "image", "tool_use", "tool_result", "document", "thinking", "user", "assistant",
         "system", "custom", "type", "content", "source", "toolu_1", "look", ""]  # fmt: skip
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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for name, each in inner:
        found.append((*path, name))
        if isinstance(each, dict | list):
            found += places(each, (*path, name))
    return found


CHAT, RESPONSES, _ = bodies(RICH).values()
BODIES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
PLACES = {api: places(body) for api, body in BODIES.items()}


@each_api()
def test_the_body_is_valid_before_it_is_damaged(api):
    roles = [each["role"] for each in parsed(api, BODIES[api]).messages]
    if api == "messages":
        assert roles == ["system", "user", "assistant", "tool", "system", "user", "assistant"]
    else:
        assert roles == ["system", "user", "assistant", "tool", "assistant"]


def check_refusal(api: str, error: InvalidRequest) -> None:
    assert error.param
    shown = APIS[api].error(error, None, "req_1")
    assert shown["error"]["param"]
    if api == "messages":
        check_error(shown)


@pytest.mark.exhaustive
@each_api()
@settings(deadline=None, max_examples=repeats(60, nightly=400))
@given(data=st.data())
def test_a_damaged_request_is_parsed_or_refused(api, data):
    body = copy.deepcopy(BODIES[api])
    damage = st.tuples(st.sampled_from(PLACES[api]), JSON, st.booleans())
    for path, value, removed in data.draw(st.lists(damage, min_size=1, max_size=3)):
        at: Any = body
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
        check_refusal(api, error)
        return
    assert len(asked.messages) == len(asked.message_paths)
    if api == "messages":
        assert len(asked.messages) == len(asked.repeated["part_paths"])
