"""Backend events → events of a response: where a choice ends, and what is an error."""

from __future__ import annotations

import pytest

from tests.support.apis.chat_events import answer_to, events, fed, request, responses
from tests.support.apis.read_responses import of_whole
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, NamedTool
from toolgate_core.deltas import CallStart, ContentDelta
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BackendFailed, EnforcementFailed, ToolSchemaViolation
from toolgate_proxy.chat.calls import CallIds


def test_stop_strings_in_all_choices_complete_the_response_early() -> None:
    asked = request(n=2, stop=("the", "far"))
    sent = events("Over the old bridge", "So far, so good")
    answer = answer_to(asked)
    at = 0
    while not answer.complete:
        fed(answer, sent[at : at + 1])
        at += 1
    assert at < len(sent) - 3
    assert answer.counts.completion == len(tokenize("Over the")) + len(tokenize("So far"))
    fed(answer, sent[at:])
    assert answer.counts.completion == len(tokenize("Over the")) + len(tokenize("So far"))


def test_content_that_arrives_together_is_one_event() -> None:
    text = "Over the old bridge and into a dark forest, where nobody has ever been before."
    [content, _] = fed(answer_to(request()), events(text))
    assert content.event == ContentDelta(text)


def test_tokens_with_and_without_logprobs_can_arrive_together() -> None:
    sent = [
        each.model_copy(update={"logprobs": None}) if at == 3 else each
        for at, each in enumerate(events("So far, so good", logprobs=True))
    ]
    found = [each.event for each in fed(answer_to(request()), sent)]
    contents = [each for each in found if isinstance(each, ContentDelta)]
    assert "".join(each.text for each in contents) == "So far, so good"
    shown = [each.token for content in contents for each in content.logprobs]
    assert shown == ["So ", "far", "o g", "ood"]


def test_a_stop_string_does_not_prevent_a_required_call() -> None:
    asked = request(choice="required", stop=("look",))
    _, whole = responses(asked, events("I look.\n" + call("walk", {})), [])
    assert of_whole(whole)[0]["finish"] == "tool_calls"


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (request(), events(call("fly", {}))),
        (request(choice="none"), events(call("look", {}))),
        (request(choice=NamedTool("walk")), events(call("look", {}))),
        (request(parallel=False), events(call("look", {}) + "\n" + call("look", {}))),
        (request(choice="required"), events("Hello")),
        (request(), events(call("look", "[1]"))),
        (request(), events("Hello", finish="error")),
        (request(), events("Hello</tool_call>")),
    ],
)
def test_a_response_that_violates_the_plan_is_an_error(
    asked: ChatRequest, sent: list[wire.StreamEvent]
) -> None:
    with pytest.raises(EnforcementFailed):
        fed(answer_to(asked), sent)


def test_lone_surrogate_in_arguments_is_a_schema_violation() -> None:
    with pytest.raises(ToolSchemaViolation, match="surrogate"):
        fed(answer_to(request()), events(call("look", {"where": "\ud83d"})))
    fed(answer_to(request()), events(call("look", {"where": "\ud83d\ude42"})))


def test_an_unrequested_choice_is_a_backend_error() -> None:
    with pytest.raises(BackendFailed):
        fed(answer_to(request()), events("a", "b"))


def test_cached_tokens_are_counted_when_the_response_ends_early() -> None:
    asked, sent = request(stop=("Hel",)), events("Hello there")
    tokens = sent[1]
    assert isinstance(tokens, wire.TokensEvent)
    sent[1] = tokens.model_copy(update={"cached_tokens": 4})
    answer = answer_to(asked)
    fed(answer, sent[:2])
    assert answer.complete
    assert answer.counts.cached == 4


@pytest.mark.parametrize(
    ("dialect", "passed_on"),
    [("mistral_v3", True), ("kimi_k2", True), ("cohere_r7b", False), ("kimi_k3", False)],
)
def test_ids_that_each_turn_counts_anew_are_not_those_of_the_api(
    dialect: str, passed_on: bool
) -> None:
    ids = CallIds(INFO, request(), DIALECTS[dialect])
    found = [ids.id_of(CallStart(0, "look", id="1")) for _ in range(2)]
    if passed_on:
        assert found == ["1", "1"]
    else:
        assert len({*found}) == 2
        assert all(each.startswith("call_") for each in found)
