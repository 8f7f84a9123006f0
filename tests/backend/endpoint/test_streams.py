"""Streams of tokens: decoded, batched, kept alive and abandoned."""

import asyncio
from types import SimpleNamespace

import pytest
from fastapi import FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from vllm.exceptions import GenerationError

from toolgate_backend.endpoint.routes import (
    COMMENT,
    EventStreamResponse,
    _collect_events,
    _error_event,
)
from toolgate_backend.endpoint.token_stream import LogprobFormat, TextDecoder, batched, raw_events
from toolgate_core import wire
from toolgate_core.errors import BackendFailed
from toolgate_core.wire import (
    EndEvent,
    PromptLogprob,
    StartEvent,
    TokenLogprob,
    TokensEvent,
    TopLogprob,
    UsageEvent,
)


# --- routes ---
async def test_client_disconnect_aborts_the_request():
    """A request without streaming is aborted too."""
    closed = asyncio.Event()

    async def forever():
        try:
            await asyncio.sleep(60)
            yield wire.UsageEvent(prompt_tokens=1, completion_tokens=1, cached_tokens=0)
        finally:
            closed.set()

    async def receive():
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "app": FastAPI()}, receive)
    nothing = await _collect_events(forever(), request)
    assert nothing is None or nothing.body == b""  # from vLLM 0.33 on, an empty response
    await asyncio.wait_for(closed.wait(), 10)


@pytest.mark.parametrize(
    ("status", "code"), [(503, "backend_unavailable"), (500, "backend_failed")]
)
def test_a_paused_engine_is_unavailable_and_a_failed_one_is_not(status, code):
    error = GenerationError("Generation is paused.")
    error.status_code = status
    event = _error_event(error)
    assert event.error["code"] == code
    assert ("paused" in event.error["message"]) is (status == 503)


async def slow(pauses):
    for at, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield b"%d" % at


async def bodies(events, seconds, sent):
    async def send(message):
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    await EventStreamResponse(events, seconds).stream_response(send)


async def test_comments_are_sent_while_idle_and_all_bodies_are_kept():
    sent = []
    await bodies(slow([0, 0.3, 0]), 0.05, sent)
    assert [body for body in sent if body != COMMENT] == [b"0", b"1", b"2", b""]
    assert sent.count(COMMENT) >= 2
    assert sent[0] == b"0"
    assert sent[-1] == b""


async def test_no_comment_is_sent_while_bodies_arrive():
    sent = []
    await bodies(slow([0.001] * 20), 10, sent)
    assert COMMENT not in sent


async def test_an_error_is_propagated_and_ends_the_keepalive():
    async def broken():
        yield b"1"
        raise RuntimeError

    sent = []
    with pytest.raises(RuntimeError):
        await bodies(broken(), 0.01, sent)
    await asyncio.sleep(0.05)
    assert sent == [b"1"]


async def test_cancelling_while_idle_closes_the_source():
    closed = False

    async def forever():
        nonlocal closed
        try:
            await asyncio.sleep(60)
            yield b""
        finally:
            closed = True

    sent = []
    reading = asyncio.create_task(bodies(forever(), 0.01, sent))
    while COMMENT not in sent:  # noqa: ASYNC110  the list is filled by another task
        await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert closed


# --- token batches ---
START = StartEvent(prompt_tokens=20, reasoning_open=False)
USAGE = UsageEvent(prompt_tokens=20, completion_tokens=7)


def tokens(choice, *ids, cached=None):
    return TokensEvent(
        choice=choice,
        ids=ids,
        texts=tuple(f"{each} " for each in ids),
        logprobs=tuple(TokenLogprob(token="t", bytes=(1,), logprob=-each) for each in ids),
        cached_tokens=cached,
    )


def end(choice):
    return EndEvent(choice=choice, finish_reason="stop")


EVENTS = [
    START,
    tokens(0, 1, cached=16),
    tokens(1, 2),
    tokens(0, 3, 4),
    tokens(1, 5),
    end(1),
    tokens(0, 6),
    tokens(0, 7),
    end(0),
    USAGE,
]


async def sent(events, seconds):
    async def source():
        for event in events:
            yield event

    return [event async for event in batched(source(), seconds)]


async def test_the_tokens_after_the_first_are_one_event_of_each_choice():
    assert await sent(EVENTS, 60) == [
        START,
        tokens(0, 1, cached=16),
        tokens(1, 2, 5),
        tokens(0, 3, 4),
        end(1),
        tokens(0, 6, 7),
        end(0),
        USAGE,
    ]


async def test_tokens_without_logprobs_have_none_in_a_batch():
    plain = [START, *(TokensEvent(choice=0, ids=(each,), texts=("t",)) for each in range(3))]
    *_, joined, last = await sent([*plain, end(0)], 60)
    assert joined == TokensEvent(choice=0, ids=(1, 2), texts=("t", "t"))
    assert last == end(0)


async def test_nothing_is_joined_beyond_the_time_of_a_batch():
    assert await sent(EVENTS, 0) == EVENTS


async def test_an_abandoned_response_closes_its_source():
    closed = False

    async def source():
        nonlocal closed
        try:
            for event in EVENTS:
                yield event
        finally:
            closed = True

    events = batched(source(), 60)
    assert await anext(events) == START
    await events.aclose()
    assert closed


# --- token stream ---
BEGUN = StartEvent(prompt_tokens=20, reasoning_open=True, max_tokens=30)


def test_a_character_is_emitted_with_its_last_token(vocabulary):
    decoder = TextDecoder(vocabulary)
    ids = [vocabulary.token_bytes.index(bytes([byte])) for byte in "é🙂".encode()]
    assert [decoder.decode(i) for i in ids] == ["", "é", "", "", "", "🙂"]
    assert decoder.rest() == ""


def test_a_character_begun_in_accepted_tokens_is_completed(vocabulary):
    first, second = (vocabulary.token_bytes.index(bytes([byte])) for byte in "é".encode())
    assert TextDecoder(vocabulary, [first]).decode(second) == "é"


def test_decoded_texts_join_to_the_full_text(vocabulary):
    @given(st.text(max_size=40))
    def holds(text):
        decoder = TextDecoder(vocabulary)
        decoded = "".join(decoder.decode(i) for i in vocabulary.encode(text))
        # The tokenizer normalises to NFC before it encodes.
        assert decoded + decoder.rest() == vocabulary.tokenizer.decode(vocabulary.encode(text))

    holds()


async def outputs():
    """Two choices of one request, as vLLM gives them in DELTA."""

    def choice(index, ids, finish=None):
        return SimpleNamespace(
            index=index, token_ids=ids, logprobs=None, finish_reason=finish, stop_reason=None
        )

    def output(choices, of_prompt=None):
        return SimpleNamespace(num_cached_tokens=16, outputs=choices, prompt_logprobs=of_prompt)

    of_prompt = [None, {7: SimpleNamespace(logprob=float("-inf"), rank=3)}]
    yield output([choice(0, [10]), choice(1, [11, 12])], of_prompt)
    yield output([choice(1, [], "stop")])
    yield output([choice(0, [13], "length")])


async def test_events_of_two_choices_are_kept_apart(vocabulary):
    events = [event async for event in raw_events(outputs(), vocabulary, start=BEGUN)]
    assert [e.ids for e in events if isinstance(e, TokensEvent)] == [(10,), (11, 12), (13,)]
    ends = [(e.choice, e.finish_reason) for e in events if isinstance(e, EndEvent)]
    assert ends == [(1, "stop"), (0, "length")]
    first, *rest = [e.prompt_logprobs for e in events if isinstance(e, TokensEvent)]
    text = vocabulary.token_bytes[7].decode()
    assert first == (None, {7: PromptLogprob(logprob=-9999.0, rank=3, decoded_token=text)})
    assert rest == [None, None]
    assert events[-1] == UsageEvent(prompt_tokens=20, completion_tokens=4, cached_tokens=16)


async def test_a_response_that_its_engine_aborts_ends_with_an_error(vocabulary):
    async def aborted():
        async for output in outputs():
            for choice in output.outputs:
                choice.finish_reason = choice.finish_reason and "abort"
            yield output

    events = raw_events(aborted(), vocabulary, start=BEGUN)
    with pytest.raises(BackendFailed, match="ended this request early"):
        _ = [event async for event in events]


async def test_cached_tokens_of_a_continued_response_are_those_of_its_prompt(vocabulary):
    """vLLM's own count includes the accepted tokens, which are no part of the client's prompt."""
    start = BEGUN.model_copy(update={"prompt_tokens": 10})
    events = raw_events(outputs(), vocabulary, start=start, accepted=(7,) * 8)
    *_, usage = [event async for event in events]
    assert usage == UsageEvent(prompt_tokens=10, completion_tokens=4, cached_tokens=10)


def test_top_logprobs_are_the_likeliest_or_the_selected_ids(vocabulary):
    at = {token: SimpleNamespace(logprob=-float(token - 9)) for token in (10, 11, 12)}
    [likeliest] = LogprobFormat(vocabulary, top=2).token_logprobs([12], [at]) or ()
    assert [each.logprob for each in likeliest.top] == [-1.0, -2.0]
    [selected] = (
        LogprobFormat(vocabulary, 0, selected_ids=(11, 99), as_ids=True).token_logprobs([12], [at])
        or ()
    )
    text = vocabulary.token_bytes[11]
    assert selected.token == "token_id:12"
    assert selected.top == (TopLogprob(token="token_id:11", bytes=tuple(text), logprob=-2.0),)
