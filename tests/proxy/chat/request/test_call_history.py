from __future__ import annotations

import re
from typing import Any

import pytest

from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.chat.request.preparation import with_family_ids


def assistant(*calls: tuple[str, str]) -> dict[str, Any]:
    made = [
        {"id": given, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name, given in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(given: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": given}


def pairs(messages: Any) -> list[tuple[str, str]]:
    """The ids of the calls, and the contents of their results."""
    found: list[tuple[str, str]] = []
    ids: dict[str, int] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            ids[call["id"]] = len(found)
            found.append((call["id"], ""))
        if message["role"] == "tool":
            at = ids[message["tool_call_id"]]
            found[at] = (found[at][0], message["content"])
    return found


FOREIGN = (
    {"role": "user", "content": "Hi"},
    assistant(("f", "call_abc"), ("g", "call_def")),
    result("call_def", "of g"),
    result("call_abc", "of f"),
    assistant(("f", "call_ghi")),
    result("call_ghi", "of the second f"),
)


@pytest.mark.parametrize(
    ("dialect", "ids"),
    [
        ("kimi_k2", ["functions.f:0", "functions.g:1", "functions.f:2"]),
        ("cohere_r7b", ["0", "1", "0"]),
        ("kimi_k3", ["1", "2", "1"]),
        ("qwen3", ["call_abc", "call_def", "call_ghi"]),
    ],
)
def test_foreign_ids_get_the_form_of_the_family(dialect: str, ids: list[str]) -> None:
    made = with_family_ids(FOREIGN, DIALECTS[dialect])
    texts = ["of f", "of g", "of the second f"]
    assert [each for each, _ in pairs(made)] == ids
    assert [text for _, text in pairs(made)] == texts
    assert with_family_ids(made, DIALECTS[dialect]) == made


def test_random_ids_are_the_same_in_every_request() -> None:
    made = pairs(with_family_ids(FOREIGN, DIALECTS["mistral_v11"]))
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each, _ in made)
    assert len({each for each, _ in made}) == 3
    assert pairs(with_family_ids(FOREIGN[:2], DIALECTS["mistral_v11"]))[0][0] == made[0][0]
    own = (assistant(("f", "a1b2c3d4e")), result("a1b2c3d4e", "x"))
    assert with_family_ids(own, DIALECTS["mistral_v11"]) == own


def test_repeated_ids_are_those_of_the_last_turn() -> None:
    messages = (
        assistant(("f", "1")),
        result("1", "first"),
        assistant(("f", "1")),
        result("1", "second"),
    )
    made = with_family_ids(messages, DIALECTS["kimi_k2"])
    assert pairs(made) == [("functions.f:0", "first"), ("functions.f:1", "second")]
