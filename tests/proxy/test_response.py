"""The answer from wire events, streamed and whole: both of the same pieces, whatever the split."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fake_backend import INFO
from hypothesis import given, settings
from hypothesis import strategies as st
from read_answers import collected, of_whole
from script import call, tokenize
from told_answers import answer_to, events, fed, request, shaped

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, EnforcementFailed, ToolSchemaViolation
from toolgate_core.plan import ChatRequest, NamedTool
from toolgate_proxy.api.chat_completions.shaping import Chunks, WholeAnswer
from toolgate_proxy.chat.answer import MAX_JOINED

END = "<|im_end|>"
LONG = {"where": "north of the old stone bridge, past the second mill, left at the oak tree"}
ANSWERS = {
    "content": (request(), events("Hello there")),
    "nothing": (request(), events("")),
    "reasoning": (request(), events("<think>\nLet me see.\n</think>\n\nHello")),
    "reasoning only": (request(), events("hm, hm", finish="length", reasoning_open=True)),
    "two choices": (request(n=2), events("Hello", "<think>\nhm\n</think>\n\nGood day")),
    "a call": (request(), events(call("look", LONG))),
    "content and calls": (
        request(),
        events("I look.\n" + call("look", LONG) + "\n" + call("walk", {})),
    ),
    "calls in one choice of two": (request(n=2), events(call("look", {"a": [1, {}]}), "No.")),
    "a required call": (request(choice="required"), events(call("walk", {"to": "é"}))),
    "a named call": (request(choice=NamedTool("walk")), events(call("walk", {}))),
    "a cut call": (request(), events(call("look", LONG)[:60], finish="length")),
    "a stop string": (request(stop=("bridge",)), events("Over the old bridge and far away")),
    "stop strings in both": (
        request(n=2, stop=("the", "far")),
        events("Over the old bridge", "So far, so good"),
    ),
    "logprobs": (request(), events("Hello there, you", logprobs=True)),
    "logprobs of calls": (
        request(),
        events("<think>hm</think>\n\nI look.\n" + call("look", LONG), logprobs=True),
    ),
    "a stop string that is shown": (
        request(stop=("bridge",), include_stop=True),
        events("Over the old bridge and far away"),
    ),
    "a stop token": (request(stop_ids=(tokenize("old")[0][0],)), events("We go over, old friend")),
    "a stop token beside stop strings": (
        request(stop_ids=(tokenize("old")[0][0],), stop=("never",)),
        events("<think>old</think>\n\nWe go over, old friend"),
    ),
    "token ids": (request(return_token_ids=True), events("I look.\n" + call("look", {"a": 1}))),
    "token ids up to a stop": (
        request(return_token_ids=True, stop=("go",)),
        events("We go over, old friend"),
    ),
    "a function call": (
        request(legacy_functions=True, parallel=False),
        events(call("look", LONG)),
    ),
    "an echo": (request(echo="Once upon "), events("a time")),
    "no reasoning": (request(include_reasoning=False), events("<think>hm</think>\n\nHello")),
}


@pytest.mark.parametrize("name", ANSWERS)
@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 80), max_size=12))
def test_streamed_equals_whole_for_any_split(name: str, cuts: list[int]) -> None:
    asked, told = ANSWERS[name]
    chunks, whole = shaped(asked, told, cuts)
    streamed = collected(chunks)
    assert streamed == of_whole(whole)
    one_by_one, _ = shaped(asked, told, list(range(len(told))))
    assert collected(one_by_one) == streamed
    assert chunks[-1]["usage"] == whole["usage"] == one_by_one[-1]["usage"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("content", {"content": "Hello there", "finish": "stop"}),
        ("nothing", {"content": "", "finish": "stop"}),
        ("reasoning", {"content": "Hello", "reasoning": "Let me see.", "finish": "stop"}),
        ("reasoning only", {"content": None, "reasoning": "hm, hm", "finish": "length"}),
        ("a call", {"content": None, "finish": "tool_calls"}),
        ("a named call", {"calls": [["walk", "{}"]], "finish": "stop"}),
        ("a required call", {"calls": [["walk", '{"to": "\\u00e9"}']], "finish": "tool_calls"}),
        ("a cut call", {"finish": "length"}),
        ("a stop string", {"content": "Over the old ", "finish": "stop"}),
        ("logprobs", {"logprobs": ["Hel", "lo ", "the", "re,", " yo", "u"]}),
        (
            "logprobs of calls",
            {"call_logprobs": {0: call("look", LONG)[len("<tool_call>") : -len("</tool_call>")]}},
        ),
        ("a cut call", {"extensions": {"toolgate": {"last_call": "cut"}}}),
        ("a stop string", {"extensions": {"stop_reason": "bridge"}}),
        ("a stop string that is shown", {"content": "Over the old bridge"}),
        (
            "a stop token",
            {"content": "We go ", "extensions": {"stop_reason": tokenize("ove")[0][0]}},
        ),
        ("a stop token beside stop strings", {"content": "We g"}),
        (
            "token ids",
            {"token_ids": [t for t, _ in tokenize("I look.\n" + call("look", {"a": 1}) + END)]},
        ),
        ("token ids up to a stop", {"token_ids": [t for t, _ in tokenize("We go ")]}),
        ("a function call", {"calls": [["look", json.dumps(LONG)]], "finish": "function_call"}),
        ("an echo", {"content": "Once upon a time"}),
        ("no reasoning", {"reasoning": None, "content": "Hello"}),
    ],
)
def test_whole_answers(name: str, expected: dict[str, Any]) -> None:
    _, whole = shaped(*ANSWERS[name], [])
    choice = of_whole(whole)[0]
    assert {key: choice[key] for key in expected} == expected


def test_a_long_call_arrives_in_parts_however_late_it_is_read() -> None:
    chunks, _ = shaped(*ANSWERS["a call"], [])
    parts = [
        part["function"]["arguments"]
        for chunk in chunks
        for choice in chunk["choices"]
        for part in choice["delta"].get("tool_calls") or []
    ]
    assert "".join(parts) == json.dumps(LONG)
    assert len(json.dumps(LONG)) >= 80
    assert 3 <= len(parts) < 10
    assert max(map(len, parts)) <= MAX_JOINED


def test_usage() -> None:
    _, whole = shaped(*ANSWERS["reasoning"], [])
    usage = whole["usage"]
    tokens = len(tokenize("<think>\nLet me see.\n</think>\n\nHello<|im_end|>"))
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, tokens)
    assert usage["total_tokens"] == 5 + tokens
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 7


def test_stop_strings_end_the_answer_before_the_backend_does() -> None:
    asked, told = ANSWERS["stop strings in both"]
    answer = answer_to(asked)
    at = 0
    while not answer.complete:
        fed(answer, told[at : at + 1])
        at += 1
    assert at < len(told) - 3
    assert answer.counts.completion == len(tokenize("Over the")) + len(tokenize("So far"))
    fed(answer, told[at:])
    assert answer.counts.completion == len(tokenize("Over the")) + len(tokenize("So far"))


def test_a_stop_string_does_not_keep_a_choice_from_a_call_it_owes() -> None:
    asked = request(choice="required", stop=("look",))
    _, whole = shaped(asked, events("I look.\n" + call("walk", {})), [])
    assert of_whole(whole)[0]["finish"] == "tool_calls"


@pytest.mark.parametrize(
    ("asked", "told"),
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
def test_an_answer_that_breaks_the_plan_is_an_error(
    asked: ChatRequest, told: list[wire.StreamEvent]
) -> None:
    with pytest.raises(EnforcementFailed):
        fed(answer_to(asked), told)


def test_half_a_surrogate_pair_is_no_bug_but_an_error() -> None:
    with pytest.raises(ToolSchemaViolation, match="surrogate"):
        fed(answer_to(request()), events(call("look", {"where": "\ud83d"})))
    fed(answer_to(request()), events(call("look", {"where": "\ud83d\ude42"})))


def test_a_choice_that_was_not_asked_for() -> None:
    with pytest.raises(BackendFailed):
        fed(answer_to(request()), events("a", "b"))


def test_a_call_that_was_closed_ends_with_length() -> None:
    told = events(call("look", {}))
    closed = INFO.marks.model_copy(update={"closed": 9})
    end = told[-2]
    assert isinstance(end, wire.EndEvent)
    told[-2] = end.model_copy(update={"stop_reason": 9})
    asked = request()
    answer = answer_to(asked, INFO.model_copy(update={"marks": closed}))
    whole = WholeAnswer(answer)
    whole.add(fed(answer, told))
    [choice] = whole.response().model_dump()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["toolgate"] == {"last_call": "closed"}


def test_usage_as_it_grows() -> None:
    asked, told = request(continuous_usage=True), events("Hello there, you")
    chunks, _ = shaped(asked, told, list(range(len(told))))
    counted = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counted == sorted(counted)
    assert counted[0] <= 2
    assert counted[-1] == len(tokenize("Hello there, you<|im_end|>"))


def test_the_prompts_ids_come_once() -> None:
    asked, told = request(return_token_ids=True, n=2), events("Hello", "Good day")
    start = told[0]
    assert isinstance(start, wire.StartEvent)
    told[0] = start.model_copy(update={"prompt_token_ids": (1, 2, 3)})
    chunks, whole = shaped(asked, told, [3, 5])
    assert whole["prompt_token_ids"] == [1, 2, 3]
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [[1, 2, 3]] + [None] * (
        len(chunks) - 1
    )


def test_cached_tokens_of_an_answer_that_was_left_early() -> None:
    asked, told = request(stop=("Hel",)), events("Hello there")
    tokens = told[1]
    assert isinstance(tokens, wire.TokensEvent)
    told[1] = tokens.model_copy(update={"cached_tokens": 4})
    answer = answer_to(asked)
    fed(answer, told[:2])
    assert answer.complete
    assert answer.counts.cached == 4


def test_ids_of_calls_as_kimis_template_needs_them() -> None:
    """Numbered on through the conversation; others are random."""
    made = {"id": "functions.look:0", "function": {"name": "look", "arguments": "{}"}}
    asked = replace(request(), messages=({"role": "assistant", "tool_calls": [made]},))
    told = events(call("look", {}) + "\n" + call("walk", {}))
    for info, expected in (
        (INFO.model_copy(update={"call_ids": "kimi_k2"}), ["functions.look:1", "functions.walk:2"]),
        (INFO, None),
    ):
        answer = answer_to(asked, info)
        whole, chunks, pieces = WholeAnswer(answer), Chunks(answer), fed(answer, told)
        whole.add(pieces)
        ids = [each.id for each in whole.response().choices[0].message.tool_calls]
        deltas = [each for c in chunks.of(pieces) for each in c.choices[0].delta.tool_calls or ()]
        streamed = [delta.id for delta in deltas if delta.id]
        if expected is None:
            assert len({*ids, *streamed}) == 4
            assert all(each.startswith("call_") for each in ids)
        else:
            assert ids == streamed == expected


def test_what_is_told_of_the_prompt() -> None:
    logprob = wire.PromptLogprob(logprob=-0.5, rank=1, decoded_token="a")
    told = events("Hello")
    told[0] = wire.StartEvent(prompt_tokens=5, reasoning_open=False, prompt_text="<user>hi")
    told[1] = told[1].model_copy(update={"prompt_logprobs": (None, {7: logprob})})
    answer = answer_to(request(answer_id="chatcmpl-mine"))
    whole, pieces = WholeAnswer(answer), fed(answer, told)
    whole.add(pieces)
    body = whole.response().model_dump()
    assert (body["id"], body["prompt_text"]) == ("chatcmpl-mine", "<user>hi")
    assert body["prompt_logprobs"] == [None, {"7": logprob.model_dump()}]
    first, *rest = [chunk.model_dump() for chunk in Chunks(answer).of(pieces)]
    assert first["prompt_text"] == "<user>hi"
    assert not any("prompt_text" in chunk for chunk in rest)


@pytest.mark.parametrize(
    "text", ['<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', ""]
)
def test_a_stream_begins_with_the_first_token_though_that_shows_nothing(text: str) -> None:
    asked, told = request(), events(text)
    answer = answer_to(asked)
    [first] = Chunks(answer).of(fed(answer, told[:2]))
    [choice] = first.model_dump()["choices"]
    assert choice["delta"]["role"] == "assistant"
    assert choice["delta"]["content"] is None
    streamed, whole = shaped(asked, told, list(range(len(told))))
    assert collected(streamed) == of_whole(whole)
