"""Chunks of chat completions: how they are cut and encoded, and what the first and last ones have.
What they add up to is in test_answers.py."""

import json
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litellm.types.utils import ModelResponseStream

from tests.support.apis.chat_events import answer_to, events, fed, request, responses
from tests.support.apis.read_responses import collected, of_whole
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call, tokenize
from toolgate_core import wire
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)
from toolgate_proxy.api.chat_completions.output import DONE, ChatWriter, server_sent
from toolgate_proxy.api.surface import Reading
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.chat.choice import ChoiceStart, TokenIdsEvent
from toolgate_proxy.chat.metrics import REPETITIONS
from toolgate_proxy.chat.response import MAX_JOINED, ResponseEvent, ResponseHead, TokenCounts
from toolgate_proxy.request.chat_request import Extras

LONG = {"where": "north of the old stone bridge, past the second mill, left at the oak tree"}


def plain_answer(**changes):
    """What chunks are made of, besides the events; each call id is `call_1`."""
    return SimpleNamespace(
        head=ResponseHead("chatcmpl-1", 1, "backend-model", "fp_1"),
        prompt_token_ids=changes.pop("prompt_token_ids", None),
        prompt_text=None,
        prompt_logprobs=None,
        call_id=lambda start: "call_1",
        counts=TokenCounts(prompt=3, cached=0, completion=2, reasoning=0),
    )


WRITER = ChatWriter(request())
DEFINED = {"type": "tool_definition", "definition": {"type": "custom", "custom": {"name": "a"}}}
ADDED = {"role": "system", "content": [{"type": "tool_addition", "tool": DEFINED}]}
TEXTS = st.text(max_size=8)
LOGPROB = wire.TokenLogprob(token="a", bytes=(97,), logprob=-0.5)
LOGPROBS = st.sampled_from([(), (LOGPROB,)])
EVENTS = st.one_of(
    st.builds(ContentDelta, TEXTS, LOGPROBS),
    st.builds(ReasoningDelta, TEXTS, LOGPROBS),
    st.builds(ArgumentsDelta, st.integers(0, 2), TEXTS, LOGPROBS),
    st.just(TokenIdsEvent((1, 2))),
    st.builds(CallStart, st.integers(0, 2), st.sampled_from(["a", "b"])),
    st.just(CallEnd(0)),
    st.just(Finish("stop")),
    st.just(ChoiceStart()),
)
BATCHES = st.lists(
    st.lists(st.builds(ResponseEvent, st.integers(0, 1), EVENTS), max_size=4), max_size=5
)


def with_start(each):
    """An event, and the begin of the call that it belongs to."""
    in_call = isinstance(each.event, ArgumentsDelta | CallEnd)
    return [replace(each, event=CallStart(each.event.index, "a")), each] if in_call else [each]


def parsed(data):
    return [json.loads(payload) for payload in SseParser().feed(data)]


def as_litellm_writes(chunk, model):
    """A chunk of our provider as LiteLLM's handler sends it, but for two differences that OpenAI's
    API allows: it leaves out a `finish_reason` that is null, and repeats the `type` of a call."""
    made = ModelResponseStream(**chunk)
    made.model = model
    event = json.loads(made.model_dump_json(exclude_none=True, exclude_unset=True))
    for choice in event["choices"]:
        choice.setdefault("finish_reason", None)
        for part in choice["delta"].get("tool_calls") or []:
            if "id" not in part:
                assert part.pop("type", "function") == "function"
    return event


def without_null_content(event):
    """LiteLLM leaves out the null content of a first delta."""
    for choice in event["choices"]:
        if choice["delta"].get("content", "") is None:
            del choice["delta"]["content"]
    return event


@given(BATCHES, st.booleans(), st.booleans(), st.sampled_from([None, (7, 8)]))
def test_both_routes_send_the_same_events(batches, continuous, call_done, prompt):
    """Our route writes chunks itself; on LiteLLM's way they go through its own types."""
    given_to = plain_answer(prompt_token_ids=prompt)
    writer = ChatWriter(request(), continuous_usage=continuous, call_done=call_done)
    chunks, stream = (writer.response(given_to, "asked-for") for _ in range(2))
    batches = [[*chain.from_iterable(map(with_start, batch))] for batch in batches]
    shaped = [chunk for batch in batches for chunk in chunks.shown(batch)]
    expected = [as_litellm_writes(chunk, "asked-for") for chunk in shaped]
    written = b"".join(stream.events(batch) for batch in batches)
    assert [*map(without_null_content, parsed(written))] == expected
    assert all(event["object"] == "chat.completion.chunk" for event in parsed(written))


def test_the_events_of_a_batch_are_encoded_together_and_end_with_the_requested_usage():
    stream = WRITER.response(plain_answer(), "m")
    deltas = [(0, ContentDelta("a")), (0, ReasoningDelta("b")), (1, Finish("stop"))]
    assert len(parsed(stream.events([ResponseEvent(at, each) for at, each in deltas]))) == 5
    assert stream.events([ResponseEvent(0, CallEnd(0))]) == b""
    assert stream.events([]) == server_sent([]) == b""
    assert WRITER.response(plain_answer(), "m").end() == DONE
    end = ChatWriter(request(), include_usage=True).response(plain_answer(), "m").end()
    assert end.endswith(DONE)
    [event] = parsed(end.removesuffix(DONE))
    assert (event["model"], event["choices"]) == ("m", [])
    assert event["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\r", "\n"])
def test_a_text_with_line_separators_stays_in_one_line(character):
    """Some clients decode before they split lines, and Unicode has more line ends than
    server-sent events."""
    text = f"a{character}b{character * 2}c"
    sent = [ResponseEvent(0, ContentDelta(text))]
    written = WRITER.response(plain_answer(), "m").events(sent)
    lines = [line for line in written.decode().splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    deltas = [json.loads(line.removeprefix("data: "))["choices"][0]["delta"] for line in lines]
    assert "".join(delta.get("content") or "" for delta in deltas) == text


def test_the_model_is_named_as_the_client_named_it():
    made = WRITER.response(plain_answer(), "b")
    [_, chunk] = made.shown([ResponseEvent(0, ContentDelta("a"))])
    assert chunk["model"] == made.body()["model"] == "b"


def arguments_of(chunks):
    return [
        part["function"]["arguments"]
        for chunk in chunks
        for choice in chunk["choices"]
        for part in choice["delta"].get("tool_calls") or []
    ]


def test_a_long_call_that_is_read_late_is_split_into_several_chunks():
    parts = arguments_of(responses(request(), events(call("look", LONG)), [])[0])
    assert "".join(parts) == json.dumps(LONG)
    assert 3 <= len(parts) < 10
    assert max(map(len, parts)) <= MAX_JOINED


def test_continuous_usage_grows_with_the_chunks():
    sent = events("Hello there, you")
    chunks, _ = responses(request(), sent, list(range(len(sent))), continuous_usage=True)
    counted = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counted == sorted(counted)
    assert counted[0] <= 2
    assert counted[-1] == len(tokenize("Hello there, you<|im_end|>"))


def ends_of_calls(chunks):
    """The position of each mark in the stream, and the index of its call."""
    return [
        (at, choice["delta"]["tool_calls"][0]["index"])
        for at, chunk in enumerate(chunks)
        for choice in chunk["choices"]
        if choice.get("toolgate") == {"call_done": True}
    ]


def test_the_end_of_a_call_is_marked_on_request():
    sent = events("I look." + call("look", LONG) + "\n" + call("walk", {}))
    plain, _ = responses(request(), sent, list(range(len(sent))))
    marked, whole = responses(request(), sent, list(range(len(sent))), call_done=True)
    assert ends_of_calls(plain) == []
    (first, index), (_, last_index) = ends_of_calls(marked)
    assert (index, last_index) == (0, 1)
    texts = arguments_of(marked[: first + 1])
    assert "".join(texts) == json.dumps(LONG)
    assert texts[-1] == ""
    assert {**collected(marked)[0], "extensions": {}} == of_whole(whole)[0]
    cut = events(call("look", LONG)[:60], finish="length")
    assert ends_of_calls(responses(request(), cut, [], call_done=True)[0]) == []


@pytest.mark.parametrize(
    ("start", "delta"),
    [
        (CallStart(0, "a"), {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}),
        (CallStart(0, "a", custom=True), {"tool_calls": [{"index": 0, "custom": {"input": ""}}]}),
    ],
)  # fmt: skip
def test_a_mark_has_an_empty_delta_of_the_calls_kind(start, delta):
    """A custom tool is known where a message alone defines it."""
    body = {"messages": [{"role": "user", "content": "hi"}, ADDED]}
    _, writer = COMPLETIONS.read(body, Reading("tiny"))
    chunks = replace(writer, call_done=True).response(plain_answer(), "m")
    *_, last = chunks.shown([ResponseEvent(0, start), ResponseEvent(0, CallEnd(0))])
    [choice] = last["choices"]
    assert choice["delta"] == delta
    assert choice["toolgate"] == {"call_done": True}


@pytest.mark.parametrize("text", [call("look", {}), ""])
def test_a_first_token_without_text_starts_the_stream(text):
    answer = answer_to(request())
    [first] = WRITER.response(answer, "m").shown(fed(answer, events(text)[:2]))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}


def test_a_call_that_was_cut_because_it_repeats_itself_finishes_with_length():
    sent = events(call("look", {"a": "b"}).partition('"b')[0])
    end = sent[-2]
    assert isinstance(end, wire.EndEvent)
    sent[-2] = end.model_copy(update={"stop_reason": 9})
    before = REPETITIONS._value.get()
    marks = INFO.marks.model_copy(update={"cut": 9})
    _, whole = responses(request(), sent, [], INFO.model_copy(update={"marks": marks}))
    [choice] = whole["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["toolgate"] == {"last_call": "cut"}
    assert REPETITIONS._value.get() == before + 1


def test_fields_about_the_prompt_are_in_the_response_and_in_the_first_chunk():
    logprob = wire.PromptLogprob(logprob=-0.5, rank=1, decoded_token="a")
    sent = events("Hello", "Good day")
    start = wire.StartEvent(prompt_tokens=5, reasoning_open=False, prompt_text="<user>hi")
    sent[0] = start.model_copy(update={"prompt_token_ids": (1, 2, 3)})
    sent[1] = sent[1].model_copy(update={"prompt_logprobs": (None, {7: logprob})})
    asked = request(n=2, extras=Extras(return_token_ids=True), answer_id="chatcmpl-mine")
    chunks, whole = responses(asked, sent, [3, 5])
    assert (whole["id"], whole["prompt_text"]) == ("chatcmpl-mine", "<user>hi")
    assert whole["prompt_logprobs"] == [None, {"7": logprob}]
    assert whole["prompt_token_ids"] == [1, 2, 3]
    first, *rest = chunks
    for name in ("prompt_text", "prompt_token_ids"):
        assert first[name] == whole[name]
        assert not any(chunk.get(name) for chunk in rest)


@pytest.mark.parametrize("kimi", [True, False])
def test_call_ids_continue_the_conversation_for_kimi_and_are_random_otherwise(kimi):
    made = {"id": "functions.look:0", "function": {"name": "look", "arguments": "{}"}}
    asked = replace(request(), messages=({"role": "assistant", "tool_calls": [made]},))
    sent = events(call("look", {}) + "\n" + call("walk", {}))
    info = INFO.model_copy(update={"call_ids": "kimi_k2"}) if kimi else INFO
    chunks, whole = responses(asked, sent, [], info)
    ids = [each["id"] for each in whole["choices"][0]["message"]["tool_calls"]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas = [part for each in choices for part in each["delta"].get("tool_calls") or ()]
    assert ids == [part["id"] for part in deltas if part.get("id")]
    if kimi:
        assert ids == ["functions.look:1", "functions.walk:2"]
    else:
        assert len({*ids}) == 2
        assert all(each.startswith("call_") for each in ids)


def test_logprobs_of_calls_are_those_of_their_text():
    text = call("look", LONG)
    _, whole = responses(request(), events("I look.\n" + text, logprobs=True), [])
    shown = of_whole(whole)[0]["call_logprobs"]
    assert shown == {0: text[len("<tool_call>") : -len("</tool_call>")]}
