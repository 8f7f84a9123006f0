"""Events and response objects: valid by OpenAI's models, and streamed equal to whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.apis.chat_events import answer_to, events, fed
from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import (
    LOOK,
    WALK,
    accumulated,
    check_event,
    check_response,
    parsed,
    streamed,
    streamed_and_whole,
)
from tests.support.effort import repeats
from tests.support.servers.script import call
from toolgate_core.errors import BackendLost
from toolgate_proxy.api.responses.surface import Responses

LONG = {"where": "north of the old stone bridge, past the second mill, left at the oak tree"}
TOOLS = [LOOK, WALK]
LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
ANSWERS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({}, events("Hello there")),
    "nothing": ({}, events("")),
    "reasoning": ({}, events("<think>\nLet me see.\n</think>\n\nHello")),
    "a summary": (
        {"reasoning": {"summary": "auto"}},
        events("<think>\nLet me see.\n</think>\n\nHello"),
    ),
    "reasoning only": ({}, events("hm, hm", finish="length", reasoning_open=True)),
    "a call": ({"tools": TOOLS}, events(call("look", LONG))),
    "reasoning, text and calls": (
        {"tools": TOOLS},
        events("<think>hm</think>\n\nI look.\n" + call("look", LONG) + "\n" + call("walk", {})),
    ),
    "a required call": (
        {"tools": TOOLS, "tool_choice": "required"},
        events(call("walk", {"to": "é"})),
    ),
    "a named call": (
        {"tools": TOOLS, "tool_choice": {"type": "function", "name": "walk"}},
        events(call("walk", {})),
    ),
    "a cut call": ({"tools": TOOLS}, events(call("look", LONG)[:60], finish="length")),
    "a cut call after a whole one": (
        {"tools": TOOLS},
        events(call("walk", {}) + "\n" + call("look", LONG)[:60], finish="length"),
    ),
    "cut text": ({}, events("Hello", finish="length")),
    "logprobs": (LOGPROBS, events("<think>hm</think>\n\nHello there, you", logprobs=True)),
    "token ids": ({"return_token_ids": True}, events("Hello there")),
    "a stop string": ({"stop": ["bridge"]}, events("Over the old bridge and far away")),
    "line ends": ({}, events("a\u2028b\u2029c\u0085d\n\ne")),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ANSWERS)
@settings(deadline=None, max_examples=repeats(12, nightly=25))
@given(cuts=st.lists(st.integers(0, 80), max_size=8))
def test_streamed_equals_whole_for_any_split(name: str, cuts: list[int]) -> None:
    params, sent = ANSWERS[name]
    made, whole = streamed_and_whole(parsed(**params), sent, cuts)
    for event in (made[0], made[1], made[-1]):
        check_event(event)
    check_response(whole)
    last = made[-1]["response"]
    assert accumulated(made) == last["output"]
    assert {**last, "completed_at": None} == {**whole, "completed_at": None}
    ids = [item["id"] for item in whole["output"]]
    assert len(set(ids)) == len(ids)
    start = made[0]["response"]
    assert (start["status"], start["output"], start["usage"]) == ("in_progress", [], None)
    assert {name: start[name] for name in ("id", "created_at", "tools", "text", "metadata")} == {
        name: last[name] for name in ("id", "created_at", "tools", "text", "metadata")
    }


@pytest.mark.parametrize(
    ("name", "kinds", "status"),
    [
        ("text", ["message"], "completed"),
        ("nothing", ["message"], "completed"),
        ("reasoning", ["reasoning", "message"], "completed"),
        ("reasoning only", ["reasoning"], "incomplete"),
        (
            "reasoning, text and calls",
            ["reasoning", "message", "function_call", "function_call"],
            "completed",
        ),
        ("a cut call", ["function_call"], "incomplete"),
        ("cut text", ["message"], "incomplete"),
    ],
)
def test_output_has_items_in_order(name: str, kinds: list[str], status: str) -> None:
    params, sent = ANSWERS[name]
    _, whole = streamed_and_whole(parsed(**params), sent)
    assert [item["type"] for item in whole["output"]] == kinds
    assert whole["status"] == whole["output"][-1]["status"] == status
    reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
    assert whole["incomplete_details"] == reason
    assert (whole["completed_at"] is None) == (status == "incomplete")


def test_a_cut_call_is_never_said_to_be_complete() -> None:
    """Clients execute a call when they see its end."""
    made, whole = streamed_and_whole(*_of("a cut call after a whole one"))
    first, second = whole["output"]
    assert (first["status"], second["status"]) == ("completed", "incomplete")
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(second["arguments"])
    ends = ("function_call_arguments.done", "output_item.done")
    told = [event for event in made if event["type"].endswith(ends)]
    assert {event["output_index"] for event in told} == {0}
    assert made[-1]["type"] == "response.incomplete"
    assert whole["toolgate"] == {"last_call": "cut"}


def test_the_end_of_a_call_is_sent_before_the_next_call() -> None:
    made, _ = streamed_and_whole(*_of("reasoning, text and calls"))
    names = [(event["type"], event.get("output_index")) for event in made]
    done = names.index(("response.output_item.done", 2))
    assert done < names.index(("response.output_item.added", 3))


def test_reasoning_is_content_or_summary() -> None:
    text = "<think>\nLet me see.\n</think>\n\nHello"
    _, whole = streamed(text, parsed())
    reasoning = whole["output"][0]
    assert reasoning["summary"] == []
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Let me see."}]
    made, whole = streamed(text, parsed(reasoning={"summary": "detailed"}))
    reasoning = whole["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Let me see."}]
    assert "content" not in reasoning
    names = [event["type"] for event in made]
    assert "response.reasoning_summary_part.added" in names
    assert "response.reasoning_summary_text.done" in names
    assert not [name for name in names if "reasoning_text" in name]


def test_logprobs_are_in_events_and_in_the_part() -> None:
    made, whole = streamed_and_whole(*_of("logprobs"))
    tokens = [token["token"] for token in whole["output"][1]["content"][0]["logprobs"]]
    assert "".join(tokens).strip() == "Hello there, you"
    deltas = [event for event in made if event["type"] == "response.output_text.delta"]
    assert [each["token"] for event in deltas for each in event["logprobs"]] == tokens
    done = next(event for event in made if event["type"] == "response.output_text.done")
    assert [each["token"] for each in done["logprobs"]] == tokens


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    _, whole = streamed("<think>hm</think>\n\nHello", parsed())
    usage = whole["usage"]
    assert usage["input_tokens"] == 5
    assert usage["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 0}
    assert usage["output_tokens_details"]["reasoning_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_response_repeats_the_request() -> None:
    given: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 99,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
        "temperature": 0.5,
        "tool_choice": {"type": "function", "name": "look"},
        "top_logprobs": 3,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "user": "u",
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    }
    _, whole = streamed(call("look", {}), parsed(tools=[LOOK], **given))
    check_response(whole)
    expected = given | {
        "text": {
            "format": {**given["text"]["format"], "description": None, "strict": False},
            "verbosity": "medium",
        },
        "tools": [{**LOOK, "description": None, "strict": None}],
        "truncation": "disabled",
        "store": True,
        "background": False,
        "previous_response_id": None,
        "service_tier": "default",
        "error": None,
    }
    assert {name: whole[name] for name in expected} == expected


def test_response_has_defaults_of_what_the_request_leaves_out() -> None:
    _, whole = streamed("Hello", parsed())
    expected = {
        "instructions": None,
        "max_output_tokens": None,
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "metadata": {},
    }
    assert {name: whole[name] for name in expected} == expected


@pytest.mark.parametrize("text", ["Hello there", "<think>hm", call("look", LONG)[:60]])
def test_an_error_in_a_stream_ends_it_as_failed(text: str) -> None:
    answer = answer_to(parsed(tools=TOOLS))
    surface = Responses()
    stream = surface.stream(answer, "tiny")
    data = stream.events(fed(answer, events(text, finish="length")[:-2]))
    error = surface.error(BackendLost("The backend is gone."))["error"]
    made = read_events(data + stream.failed(error))
    failed = made[-1]["response"]
    assert (made[-1]["type"], failed["status"]) == ("response.failed", "failed")
    assert failed["error"] == {"code": BackendLost.code, "message": "The backend is gone."}
    assert accumulated(made) == failed["output"]
    assert [item["status"] for item in failed["output"]] == ["incomplete"]
    check_event(made[-1])
    assert not [event for event in made if event["type"].endswith(".done")]


def test_an_error_before_the_first_event_is_an_error_and_a_failed_response() -> None:
    surface = Responses()
    body = surface.error(BackendLost("Gone.", param="messages"))
    event, failed = read_events(surface.error_event(body))
    check_event(event)
    check_event(failed)
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 1)
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": BackendLost.code, "message": "Gone."}
    assert (event["code"], event["param"], event["sequence_number"]) == (
        BackendLost.code,
        "input",
        0,
    )
    assert event["error"] == body["error"]


def _of(name: str) -> tuple[Any, Any]:
    params, sent = ANSWERS[name]
    return parsed(**params), sent
