"""Backend events → events of a response: where a choice ends, what is an error, and streams of a
real backend (scripts/record_streams.py), cut at every place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.apis.chat_events import answer_to, events, fed, read, request, responses
from tests.support.apis.read_responses import collected, of_whole
from tests.support.effort import NIGHTLY, SAMPLE
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.deltas import CallStart, ContentDelta
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BackendFailed, EnforcementFailed, ToolSchemaViolation
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.chat.calls import CallIds
from toolgate_proxy.request.chat_request import NamedTool

STEP = 1 if NIGHTLY else 4
"""Of as many neighbouring places, a recorded stream is cut at one."""


def test_stop_strings_in_all_choices_complete_the_response_early():
    asked = request(n=2, stop=("the", "far"))
    sent = events("Over the old bridge", "So far, so good")
    answer = answer_to(asked)
    at = 0
    while not answer.complete:
        fed(answer, sent[at : at + 1])
        at += 1
    assert at < len(sent) - 3
    for _ in range(2):
        assert answer.counts.completion == len(tokenize("Over the")) + len(tokenize("So far"))
        fed(answer, sent[at:])


def test_content_that_arrives_together_is_one_event():
    text = "Over the old bridge and into a dark forest, where nobody has ever been before."
    [content, _] = fed(answer_to(request()), events(text))
    assert content.event == ContentDelta(text)


def test_tokens_with_and_without_logprobs_can_arrive_together():
    sent = [
        each.model_copy(update={"logprobs": None}) if at == 3 else each
        for at, each in enumerate(events("So far, so good", logprobs=True))
    ]
    found = [each.event for each in fed(answer_to(request()), sent)]
    contents = [each for each in found if isinstance(each, ContentDelta)]
    assert "".join(each.text for each in contents) == "So far, so good"
    shown = [each.token for content in contents for each in content.logprobs]
    assert shown == ["So ", "far", "o g", "ood"]


def test_a_stop_string_does_not_prevent_a_required_call():
    asked = request(choice="required", stop=("look",))
    _, whole = responses(asked, events("I look.\n" + call("walk", {})), [])
    assert of_whole(whole)[0]["finish"] == "tool_calls"


@pytest.mark.parametrize(
    ("asked", "sent", "error"),
    [
        (request(), events(call("fly", {})), EnforcementFailed),
        (request(choice="none"), events(call("look", {})), EnforcementFailed),
        (request(choice=NamedTool("walk")), events(call("look", {})), EnforcementFailed),
        (request(parallel=False), events(call("look", {}) + "\n" + call("look", {})),
         EnforcementFailed),
        (request(choice="required"), events("Hello"), EnforcementFailed),
        (request(), events(call("look", "[1]")), EnforcementFailed),
        (request(), events(call("look", '{"where": "Ro')), EnforcementFailed),
        (request(), events("Hello", finish="error"), EnforcementFailed),
        (request(), events("Hello</tool_call>"), EnforcementFailed),
        (request(), events(call("look", {"where": "\ud83d"})), ToolSchemaViolation),
        (request(), events("a", "b"), BackendFailed),
    ],
    ids=[
        "an unknown tool", "no call is allowed", "another tool", "two calls", "no call",
        "no object", "an incomplete call", "the engine failed", "an end alone", "half a pair",
        "an unrequested choice",
    ],
)  # fmt: skip
def test_a_response_that_violates_the_plan_is_an_error(asked, sent, error):
    with pytest.raises(error):
        fed(answer_to(asked), sent)


def test_a_pair_of_surrogates_is_one_character():
    assert fed(answer_to(request()), events(call("look", {"where": "\ud83d\ude42"})))


def test_cached_tokens_are_counted_when_the_response_ends_early():
    asked, sent = request(stop=("Hel",)), events("Hello there")
    sent[1] = sent[1].model_copy(update={"cached_tokens": 4})
    answer = answer_to(asked)
    fed(answer, sent[:2])
    assert answer.complete
    assert answer.counts.cached == 4


@pytest.mark.parametrize(
    ("dialect", "passed_on"),
    [("mistral_v3", True), ("kimi_k2", True), ("cohere_r7b", False), ("kimi_k3", False)],
)
def test_ids_that_each_turn_counts_anew_are_not_those_of_the_api(dialect, passed_on):
    ids = CallIds(INFO, request(), DIALECTS[dialect])
    found = [ids.id_of(CallStart(0, "look", id="1")) for _ in range(2)]
    if passed_on:
        assert found == ["1", "1"]
    else:
        assert len({*found}) == 2
        assert all(each.startswith("call_") for each in found)


RECORDED = json.loads((Path(__file__).parent / "recorded_streams.json").read_text())
STREAMS: dict[str, dict[str, Any]] = {each["name"]: each for each in RECORDED["streams"]}


def recorded(name: str, stop: tuple[str, ...], cuts: list[int]) -> dict[int, dict[str, Any]]:
    """The choices of the response, the same whole and streamed, cut there. -1: everywhere."""
    info = wire.Info.model_validate(RECORDED["info"])
    user = {"messages": [{"role": "user", "content": "What is the weather?"}], "stream": True}
    asked = replace(read(COMPLETIONS, user | STREAMS[name]["params"]), stop=stop)
    sent = wire.stream_events.validate_python(STREAMS[name]["events"])
    everywhere = [*range(len(sent))]
    chunks, whole = responses(asked, sent, everywhere if cuts == [-1] else cuts, info)
    assert collected(chunks) == of_whole(whole)
    return collected(chunks)


@pytest.mark.parametrize("stop", [(), ("a", "},")], ids=["", "stop strings"])
@pytest.mark.parametrize("name", STREAMS)
def test_every_split_of_a_recorded_stream_gives_the_same_response(name, stop):
    expected = recorded(name, stop, [])
    for cut in [-1, *range(SAMPLE % STEP, len(STREAMS[name]["events"]), STEP)]:
        assert recorded(name, stop, [cut]) == expected


def test_recorded_streams_contain_calls_reasoning_logprobs_and_choices():
    """And characters of several bytes."""
    found = [choice for name in STREAMS for choice in recorded(name, (), []).values()]
    for part in ("calls", "reasoning", "logprobs"):
        assert any(choice[part] for choice in found)
    assert any(not (choice["content"] or "").isascii() for choice in found)
    assert len(found) > len(STREAMS)
