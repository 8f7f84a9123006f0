"""Bounds by the context length and the vocabulary of the model, its switch of reasoning, and ids of
calls in the form of its family."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.apis.chat_events import read
from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ContextLengthExceeded, InvalidRequest
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.backend_client import message_json
from toolgate_proxy.backend_client.message_json import encoded
from toolgate_proxy.chat import preparation
from toolgate_proxy.chat.preparation import with_family_ids, with_reasoning_switch
from toolgate_proxy.request.chat_request import ChatRequest

LIMITS = wire.Limits(
    max_model_len=10, max_logprobs=20, max_grammars=64, vocabulary=1000, max_token_bytes=20
)
BOUNDED = INFO.model_copy(update={"limits": LIMITS})
ROLE = len("role" + "user" + "content")


def request(text: str = "hi", **more: Any) -> ChatRequest:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
    return read(COMPLETIONS, body | more)


def check(request: ChatRequest, info: wire.Info) -> None:
    message = preparation.prepared(request, info).count_message()
    for most in (1_000, 100):
        with patch.object(message_json, "LONG", most):
            encoded("count", message, "tiny", info.limits)


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_text_that_can_not_fit_the_context_is_refused(letter):
    room = (200 - ROLE) // len(letter.encode())
    check(request(letter * room), BOUNDED)
    with pytest.raises(ContextLengthExceeded, match="200 bytes"):
        check(request(letter * (room + 1)), BOUNDED)


def test_tools_and_template_arguments_count():
    tool = {"type": "function", "function": {"name": "f", "description": "d" * 200}}
    for more in ({"tools": [tool]}, {"chat_template_kwargs": {"a": ["b" * 200]}}):
        with pytest.raises(ContextLengthExceeded):
            check(request(**more), BOUNDED)
    tool["function"] = {"name": "f", "parameters": {"default": [0] * 200}}
    check(request(tools=[tool]), BOUNDED)  # its JSON has 400 bytes more


def test_images_do_not_count():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500}}
    sent = replace(request(), messages=({"role": "user", "content": [image]},))
    check(sent, BOUNDED)


def test_text_in_the_form_of_an_image_counts():
    with pytest.raises(ContextLengthExceeded):
        check(request("data:" + "A" * 500), BOUNDED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logit_bias", lambda token: {str(token): 1}),
        ("allowed_token_ids", lambda token: [1, token]),
        ("stop_token_ids", lambda token: [1, token]),
    ],
)
def test_tokens_outside_the_vocabulary_are_refused(name, value):
    check(request(**{name: value(999)}), BOUNDED)
    with pytest.raises(InvalidRequest, match="1000") as refusal:
        check(request(**{name: value(1000)}), BOUNDED)
    assert refusal.value.param == name


def test_backend_that_reports_no_bounds_is_not_checked():
    check(request("a" * 10_000, stop_token_ids=[10**6]), INFO)


@pytest.mark.parametrize(
    ("dialect", "mode", "given", "mode_after", "kwargs"),
    [
        ("qwen3", "off", {"enable_thinking": False}, "off", {"enable_thinking": False}),
        ("deepseek_v31", "on", {}, "on", {"thinking": True}),
        ("deepseek_v31", "off", {}, "off", {"thinking": False}),
        ("deepseek_v31", "default", {"thinking": True}, "on", {"thinking": True}),
        ("deepseek_v31", "default", {"thinking": False}, "off", {"thinking": False}),
        ("deepseek_v31", "default", {}, "default", {}),
        ("seed_oss", "off", {}, "off", {"thinking_budget": 0}),
        ("seed_oss", "on", {"thinking_budget": 512}, "on", {"thinking_budget": 512}),
        ("gpt_oss", "on", {"reasoning_effort": "xhigh"}, "on", {"reasoning_effort": "high"}),
        ("gpt_oss", "on", {"reasoning_effort": "minimal"}, "on", {"reasoning_effort": "low"}),
        ("gpt_oss", "off", {"reasoning_effort": "none"}, "off", {}),
        ("gpt_oss", "on", {}, "on", {"reasoning_effort": "medium"}),
        ("solar_open", "off", {"reasoning_effort": "none"}, "off", {"reasoning_effort": "minimal"}),
        ("minimax_m2", "off", {}, "off", {}),
        ("hermes", "off", {"a": 1}, "off", {"a": 1}),
    ],
)
def test_the_template_gets_the_argument_of_its_family(dialect, mode, given, mode_after, kwargs):
    request = ChatRequest("id", "m", (), reasoning=mode, template_kwargs=given)
    made = with_reasoning_switch(request, DIALECTS[dialect])
    assert (made.reasoning, made.template_kwargs) == (mode_after, kwargs)
    assert with_reasoning_switch(made, DIALECTS[dialect]) == made


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
def test_foreign_ids_get_the_form_of_the_family(dialect, ids):
    made = with_family_ids(FOREIGN, DIALECTS[dialect])
    texts = ["of f", "of g", "of the second f"]
    assert [each for each, _ in pairs(made)] == ids
    assert [text for _, text in pairs(made)] == texts
    assert with_family_ids(made, DIALECTS[dialect]) == made


def test_random_ids_are_the_same_in_every_request():
    made = pairs(with_family_ids(FOREIGN, DIALECTS["mistral_v11"]))
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each, _ in made)
    assert len({each for each, _ in made}) == 3
    assert pairs(with_family_ids(FOREIGN[:2], DIALECTS["mistral_v11"]))[0][0] == made[0][0]
    own = (assistant(("f", "a1b2c3d4e")), result("a1b2c3d4e", "x"))
    assert with_family_ids(own, DIALECTS["mistral_v11"]) == own


def test_repeated_ids_are_those_of_the_last_turn():
    messages = (
        assistant(("f", "1")),
        result("1", "first"),
        assistant(("f", "1")),
        result("1", "second"),
    )
    made = with_family_ids(messages, DIALECTS["kimi_k2"])
    assert pairs(made) == [("functions.f:0", "first"), ("functions.f:1", "second")]
