"""Whole responses: equal to the streamed ones, however the backend's events are batched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litellm.types.utils import ModelResponse

from tests.support.apis.chat_events import answer_to, events, fed, request, responses
from tests.support.apis.read_responses import collected, of_whole
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.chat_request import NamedTool
from toolgate_proxy.api.chat_completions.chunks import Chunks
from toolgate_proxy.api.chat_completions.response import WholeResponse
from toolgate_proxy.chat.metrics import REPETITIONS

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


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ANSWERS)
@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 80), max_size=12))
def test_streamed_equals_whole_for_any_split(name: str, cuts: list[int]) -> None:
    asked, sent = ANSWERS[name]
    chunks, whole = responses(asked, sent, cuts)
    streamed = collected(chunks)
    assert streamed == of_whole(whole)
    one_by_one, _ = responses(asked, sent, list(range(len(sent))))
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
def test_a_whole_response_has_the_fields(name: str, expected: dict[str, Any]) -> None:
    _, whole = responses(*ANSWERS[name], [])
    choice = of_whole(whole)[0]
    assert {key: choice[key] for key in expected} == expected


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    _, whole = responses(*ANSWERS["reasoning"], [])
    usage = whole["usage"]
    tokens = len(tokenize("<think>\nLet me see.\n</think>\n\nHello<|im_end|>"))
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, tokens)
    assert usage["total_tokens"] == 5 + tokens
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 7


def test_a_call_that_was_cut_because_it_repeats_itself_finishes_with_length() -> None:
    sent = events(call("look", {"a": "b"}).partition('"b')[0])
    marks = INFO.marks.model_copy(update={"cut": 9})
    end = sent[-2]
    assert isinstance(end, wire.EndEvent)
    sent[-2] = end.model_copy(update={"stop_reason": 9})
    before = REPETITIONS._value.get()
    asked = request()
    answer = answer_to(asked, INFO.model_copy(update={"marks": marks}))
    whole = WholeResponse(answer)
    whole.add(fed(answer, sent))
    [choice] = whole.body()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["toolgate"] == {"last_call": "cut"}
    assert REPETITIONS._value.get() == before + 1


def test_prompt_token_ids_are_in_the_first_chunk_only() -> None:
    asked, sent = request(return_token_ids=True, n=2), events("Hello", "Good day")
    start = sent[0]
    assert isinstance(start, wire.StartEvent)
    sent[0] = start.model_copy(update={"prompt_token_ids": (1, 2, 3)})
    chunks, whole = responses(asked, sent, [3, 5])
    assert whole["prompt_token_ids"] == [1, 2, 3]
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [[1, 2, 3]] + [None] * (
        len(chunks) - 1
    )


def test_call_ids_continue_the_conversation_for_kimi_and_are_random_otherwise() -> None:
    made = {"id": "functions.look:0", "function": {"name": "look", "arguments": "{}"}}
    asked = replace(request(), messages=({"role": "assistant", "tool_calls": [made]},))
    sent = events(call("look", {}) + "\n" + call("walk", {}))
    for info, expected in (
        (INFO.model_copy(update={"call_ids": "kimi_k2"}), ["functions.look:1", "functions.walk:2"]),
        (INFO, None),
    ):
        answer = answer_to(asked, info)
        whole, chunks, pieces = WholeResponse(answer), Chunks(answer), fed(answer, sent)
        whole.add(pieces)
        ids = [each["id"] for each in whole.body()["choices"][0]["message"]["tool_calls"]]
        choices = [choice for chunk in chunks.from_events(pieces) for choice in chunk["choices"]]
        deltas = [part for each in choices for part in each["delta"].get("tool_calls") or ()]
        streamed = [part["id"] for part in deltas if part.get("id")]
        assert ids == streamed
        if expected is None:
            assert len({*ids}) == 2
            assert all(each.startswith("call_") for each in ids)
        else:
            assert ids == expected


def test_prompt_fields_are_in_the_response_and_in_the_first_chunk() -> None:
    logprob = wire.PromptLogprob(logprob=-0.5, rank=1, decoded_token="a")
    sent = events("Hello")
    sent[0] = wire.StartEvent(prompt_tokens=5, reasoning_open=False, prompt_text="<user>hi")
    sent[1] = sent[1].model_copy(update={"prompt_logprobs": (None, {7: logprob})})
    answer = answer_to(request(answer_id="chatcmpl-mine"))
    whole, pieces = WholeResponse(answer), fed(answer, sent)
    whole.add(pieces)
    body = whole.body()
    assert (body["id"], body["prompt_text"]) == ("chatcmpl-mine", "<user>hi")
    assert body["prompt_logprobs"] == [None, {"7": logprob.model_dump()}]
    first, *rest = Chunks(answer).from_events(pieces)
    assert first["prompt_text"] == "<user>hi"
    assert not any("prompt_text" in chunk for chunk in rest)


def test_the_model_is_named_as_the_client_named_it() -> None:
    answer = answer_to(request())
    pieces = fed(answer, events("Hello"))
    named, unnamed = WholeResponse(answer, "alias"), WholeResponse(answer)
    for whole in (named, unnamed):
        whole.add(pieces)
    assert (named.body()["model"], unnamed.body()["model"]) == ("alias", "tiny")


@pytest.mark.parametrize("name", ANSWERS)
def test_litellm_makes_the_same_response_of_the_body(name: str) -> None:
    """On LiteLLM's way the body goes through its `ModelResponse`."""
    _, whole = responses(*ANSWERS[name], [])
    made = ModelResponse(**whole).model_dump()
    assert of_whole(made) == of_whole(whole)
    for field in ("id", "object", "created", "model", "system_fingerprint"):
        assert made[field] == whole[field]
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert made["usage"][count] == whole["usage"][count]
    for details in ("prompt_tokens_details", "completion_tokens_details"):
        assert whole["usage"][details].items() <= made["usage"][details].items()
