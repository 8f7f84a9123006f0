"""The client of a backend: messages as JSON, time limits, faults, bounds of bodies, streams."""

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.support.servers.fake_backend import INFO, KEY
from tests.support.servers.script import Script
from toolgate_core import wire
from toolgate_core.chat_shape import body_of, message_in
from toolgate_core.errors import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    InvalidRequest,
)
from toolgate_proxy.backend_client import client as client_module
from toolgate_proxy.backend_client import event_stream
from toolgate_proxy.backend_client.body import MAX_WHOLE, bound_of, fitting
from toolgate_proxy.backend_client.client import Backend, session_of
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.backend_client.message_json import LONG, Pieces, encoded
from toolgate_proxy.json_values import exceeds
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.settings import Settings

START = wire.StartEvent(prompt_tokens=1, reasoning_open=False)
PREFILLED = '{"object":"chat.completion","choices":[],"usage":{},"kv_transfer_params":{}}'
DIED = wire.ErrorEvent(status=502, error=BackendFailed("The engine died.").body()["error"])


def user(content):
    return {"role": "user", "content": content}


def request(*messages, stream=True, **more):
    prompt = wire.ChatPrompt(messages=[user(m) if isinstance(m, str) else m for m in messages])
    more = {"stream": stream, "enforcement": wire.Enforcement(), **more}
    return wire.GenerateRequest(request_id="r", model="tiny", prompt=prompt, **more)


@asynccontextmanager
async def client_of(answer, **settings):
    """A client of the server at a URL, or of one that answers every request with a status and a
    text, or by a function."""
    if isinstance(answer, str):
        client = Backend(f"{answer}/v1/", SecretStr(KEY), Settings(**settings))
        yield client
        await client.aclose()
        return

    async def handler(received):
        return web.Response(status=answer[0], text=answer[1])

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer if callable(answer) else handler)
    async with TestServer(app) as server:
        client = Backend(str(server.make_url("")), None, Settings())
        yield client
        await client.aclose()


@pytest.fixture
async def seam(backend):
    async with client_of(backend.url) as client:
        yield client


async def events(client, message, deadline=None):
    stream = await client.generate(message, deadline)
    try:
        return [event async for batch in stream for event in batch]
    finally:
        await stream.aclose()


def sse(*sent):
    return "".join(f"data: {each.model_dump_json()}\n\n" for each in sent)


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


GOOD, LONE, DEEP = user("hi"), user("\ud83d"), user(nested(300))
SURROGATE, NESTED = r"surrogate pair \(.ud83d", "nested too deeply"


@pytest.mark.parametrize(("bad", "cause"), [(LONE, SURROGATE), (DEEP, NESTED)])
@pytest.mark.parametrize(
    ("parts", "param"),
    [
        (lambda bad: {"messages": (GOOD, bad)}, "messages[1]"),
        (lambda bad: {"messages": (GOOD,), "tools": (bad,)}, "tools"),
        (lambda bad: {"messages": (GOOD,), "template_kwargs": bad}, "chat_template_kwargs"),
    ],
)
async def test_what_cannot_be_encoded_as_json_is_an_invalid_request(seam, bad, cause, parts, param):
    changed = {"prompt": wire.ChatPrompt(**parts(bad))}
    with pytest.raises(InvalidRequest, match=cause) as refused:
        await seam.generate(request("hi").model_copy(update=changed))
    assert refused.value.param == param


async def test_words_that_cannot_be_encoded_as_json_are_an_invalid_request(seam):
    sampling = wire.Sampling.model_construct(bad_words=("\ud83d",))
    with pytest.raises(InvalidRequest, match="surrogate pair") as refused:
        await seam.generate(request("hi").model_copy(update={"sampling": sampling}))
    assert refused.value.param == "bad_words"


@pytest.mark.parametrize(
    "content", ["x" * LONG + "\ud800", "\udc00" + "é" * LONG, nested(300), nested(5000)]
)
def test_a_bad_value_beside_a_long_string_is_refused_before_anything_is_sent(content):
    with pytest.raises(InvalidRequest) as refusal:
        encoded("generate", request("x" * LONG, user(content)), "")
    assert refusal.value.param == "messages[1]"


@pytest.mark.parametrize(
    "messages",
    [
        ["x" * LONG],
        ["a", '"\\\n\x00é€😀' * LONG, "b" * (2 * LONG + 1), ""],
        [user([{"type": "image_url", "image_url": {"url": "data:" + "A" * LONG}}, {"a": None}])],
        [user("a") | {"tool_calls": [{"function": {"arguments": "x" * (LONG + 1)}}], "n": 2**70}],
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
async def test_long_strings_are_sent_in_pieces_of_the_same_message(messages, sealed):
    message = request(*messages)
    pieces = encoded("generate", message, "", sealed=sealed)
    assert isinstance(pieces, Pieces)
    for _ in range(2):
        sent = [each async for each in pieces]
        whole = body_of("generate", message, "", sealed=sealed)
        assert json.loads(b"".join(sent)) == json.loads(whole)
        assert max(map(len, sent)) <= 6 * LONG


def test_other_messages_are_encoded_at_once():
    message = request("x" * (LONG - 1))
    sent = encoded("generate", message, "")
    assert isinstance(sent, bytes)
    assert wire.GenerateRequest.model_validate(message_in(json.loads(sent))) == message


HELLO, REPLY = user("hello"), {"role": "assistant", "content": "Hello."}
PARTS = user([{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "x"}}])


@pytest.mark.parametrize(
    ("messages", "more", "same"),
    [
        ([HELLO, REPLY, "go on"], {}, True),
        ([HELLO], {"stream": False, "sampling": wire.Sampling(seed=1)}, True),
        ([PARTS], {}, True),
        (["hello!"], {}, False),
        ([{"role": "system", "content": "other"}, HELLO], {}, False),
        ([HELLO], {"cache_salt": "of another owner"}, False),
    ],
)
def test_turns_of_an_owners_conversation_have_one_session(messages, more, same):
    assert (session_of(request(*messages, **more)) == session_of(request(HELLO))) is same


async def test_a_backend_gets_the_session_but_not_its_text(seam, backend):
    backend.scripts["sesame"] = Script(("Hello",))
    message = request("sesame", cache_salt="salt")
    await events(seam, message)
    sent = backend.headers[-1]["x-session-id"]
    assert sent == session_of(message)
    assert "sesame" not in sent
    assert "salt" not in sent
    tokens = wire.TokensPrompt(token_ids=(1,))
    assert session_of(message.model_copy(update={"prompt": tokens})) == ""


async def test_info_is_cached_until_it_is_forgotten(seam, backend):
    assert await seam.info() == backend.described
    backend.info = INFO.model_copy(update={"model": "other"})
    try:
        assert (await seam.info()).model == "tiny"
        seam.forget_info()
        assert (await seam.info()).model == "other"
    finally:
        backend.info = INFO


async def test_concurrent_info_calls_share_one_request():
    asked = []

    async def handler(received):
        asked.append(received)
        return web.Response(text=INFO.model_dump_json())

    async with client_of(handler) as client:
        await asyncio.gather(*(client.info() for _ in range(5)))
    assert len(asked) == 1


async def closing(received):
    received.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((200, json.dumps({"format": 99})), BackendFailed, None),
        ((200, json.dumps({"format": wire.FORMAT})), BackendFailed, None),
        ((200, "[]"), BackendFailed, None),
        ((200, "<html>"), BackendFailed, None),
        ((307, ""), BackendFailed, None),
        ((404, json.dumps({"detail": "Not Found"})), BackendFailed, None),
        ((401, json.dumps({"error": "No"})), BackendUnavailable, "TOOLGATE_BACKEND_KEY"),
    ],
)
async def test_a_server_that_is_no_backend_or_has_another_key_is_an_error(answer, error, message):
    async with client_of(answer) as client:
        with pytest.raises(error, match=message):
            await client.info()


@pytest.mark.parametrize(
    ("answer", "error", "stream"),
    [
        pytest.param(closing, BackendUnavailable, True, id="closed before the response"),
        pytest.param((200, sse(START)), BackendFailed, True, id="no end"),
        pytest.param((200, "[]"), BackendFailed, False, id="no end of a whole response"),
        pytest.param((200, PREFILLED), BackendFailed, False, id="a prefill step"),
        pytest.param((200, PREFILLED), BackendLost, True, id="a prefill step in a stream"),
        pytest.param(
            (200, 'data: {"event": "surprise"}\n\n'), BackendFailed, True, id="unknown event"
        ),
        pytest.param((200, sse(START, DIED)), BackendLost, True, id="engine died in a stream"),
        pytest.param((502, json.dumps(DIED.error)), BackendLost, True, id="engine died before"),
    ],
)
async def test_a_broken_response_is_an_error(answer, error, stream):
    async with client_of(answer) as client:
        with pytest.raises(error):
            await events(client, request("x", stream=stream))


FULL = {"error": {"message": "Full.", "code": "backend_unavailable"}}
REFUSED = {"error": {"message": "No.", "code": "invalid_request"}}
OF_VLLM = {"error": {"message": "Busy.", "code": 503}}


@pytest.mark.parametrize(
    ("answers", "error", "sends"),
    [
        ([502], None, 2),
        ([503, 503], None, 3),
        ([504], None, 2),
        (["closes"], None, 2),
        ([503, "closes", 503], BackendUnavailable, 2),
        ([502, 502], BackendLost, 2),
        ([504, 504], BackendLost, 2),
        ([503] * 3, BackendUnavailable, 3),
        (["closes"] * 2, BackendUnavailable, 2),
        ([(503, OF_VLLM), 503], None, 3),
        ([(503, FULL)], BackendUnavailable, 1),
        ([(502, {"error": DIED.error})], BackendLost, 1),
        ([500], BackendLost, 1),
        ([(400, REFUSED)], InvalidRequest, 1),
        ([429], BackendUnavailable, 1),
    ],
)
async def test_a_message_is_sent_again_if_no_replica_had_it(answers, error, sends):
    got = []

    async def handler(received):
        got.append(await received.read())
        answer = answers[len(got) - 1] if len(got) <= len(answers) else (200, {"tokens": 5})
        if answer == "closes":
            return await closing(received)
        status, body = (answer, None) if isinstance(answer, int) else answer
        return web.Response(status=status, text="<html>" if body is None else json.dumps(body))

    message = wire.CountTokens(model="tiny", prompt=request("x" * LONG).prompt)  # in pieces
    async with client_of(handler) as client:
        if error is None:
            assert await client.count(message) == 5
        else:
            with pytest.raises(error):
                await client.count(message)
    assert len(got) == sends
    assert len({*got}) == 1
    assert len(got[0]) > LONG


@pytest.mark.parametrize(("error", "tries"), [(None, 3), (aiohttp.ConnectionTimeoutError, 2)])
async def test_a_connection_that_fails_is_tried_again_at_the_address(monkeypatch, error, tries):
    """It is refused, or takes too long: a process that was stalled finds its time-out expired,
    though the backend responded."""
    tried, post = [], aiohttp.ClientSession.post

    async def counted(*arguments, **options):
        tried.append(arguments)
        if error is not None:
            raise error
        return await post(*arguments, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "post", counted)
    client = Backend(f"http://127.0.0.1:{free_port()}", None, Settings())
    with pytest.raises(BackendUnavailable):
        await client.info()
    assert len(tried) == tries
    await client.aclose()


async def test_continued_response_keeps_the_first_deadline(seam, backend):
    backend.scripts["slow"] = Script(("Hello",), hang_after=1)
    first = await seam.generate(request("slow"))
    await first.aclose()
    again = await seam.generate(request("slow"), first.deadline)
    assert again.deadline == first.deadline
    await again.aclose()
    with pytest.raises(BackendTimeout):
        await events(seam, request("slow"), time.monotonic() + 0.3)
    with pytest.raises(BackendTimeout):
        await seam.generate(request("slow"), time.monotonic() - 1)


@pytest.mark.exhaustive
async def test_keep_alives_extend_neither_the_requests_time_nor_that_of_the_first_token(backend):
    backend.scripts["silent"] = Script(("Hello you",), hang_after=0)
    backend.scripts["hang"] = Script(("Hello you",), hang_after=1)
    backend.scripts["slow"] = Script(("Hello you",), pause=0.5)
    async with client_of(backend.url, first_token_timeout=0.4, request_timeout=60) as client:
        with pytest.raises(BackendTimeout):
            await events(client, request("silent"))
        assert (await events(client, request("slow")))[-1].event == "usage", "longer, once begun"
    async with client_of(backend.url, first_token_timeout=0.5, request_timeout=1) as client:
        for stream in (True, False):
            with pytest.raises(BackendTimeout):
                await events(client, request("hang", stream=stream))


async def test_the_idle_timeout_is_that_of_the_backend_not_of_the_reader(
    seam, backend, monkeypatch
):
    monkeypatch.setattr(client_module, "IDLE_SECONDS", 0.3)
    backend.scripts["slow"] = Script(("Hello you",), pause=0.05)
    stream, read = await seam.generate(request("slow")), []
    async for batch in stream:
        read += batch
        await asyncio.sleep(0.4 if len(read) < 4 else 0)
    await stream.aclose()
    assert read[-1].event == "usage"


TOKENS = 2000
LOGPROB = {"token": "\u00e9" * 8, "bytes": [195, 169] * 8, "logprob": -12.345678901234567}


def asked(stream, **sampling):
    return request(stream=stream, sampling=wire.Sampling(**{"max_tokens": TOKENS, **sampling}))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", ["a", ",", " " * 128, "\n" * 60, '"' * 60])
@pytest.mark.parametrize("top", [None, 0, 20])
def test_an_honest_response_is_within_its_bound(stream, text, top):
    entry = LOGPROB | {"top": [LOGPROB] * (top or 0)}
    per_event = 1 if stream else TOKENS
    event = {
        "choice": 0,
        "ids": [151_000] * per_event,
        "texts": [text] * per_event,
        "logprobs": None if top is None else [entry] * per_event,
    }
    body = wire.TokensEvent.model_validate(event).model_dump_json().encode()
    body *= TOKENS // per_event
    bound = bound_of(asked(stream, logprobs=top), INFO)
    assert len(body) <= bound.body.bytes
    assert not exceeds(body, bound.body.values)
    assert bound.tokens == TOKENS


def test_a_response_that_is_too_large_for_one_message_is_streamed_by_the_backend():
    assert not fitting(asked(False), INFO).stream
    assert not fitting(asked(False, logprobs=20, max_tokens=100), INFO).stream
    whole = asked(False, n=128, logprobs=20)
    assert bound_of(whole, INFO).body == MAX_WHOLE
    for each in (asked(False, logprobs=20), whole):
        large = fitting(each, INFO)
        assert (large.stream, large.batched) == (True, True)
    assert bound_of(large, INFO).body.bytes > MAX_WHOLE.bytes


STREAM = b': hm\n\ndata: {"a": 1}\r\n\r\nevent: x\ndata:{"b": "\xc3\xa9"}\n\ndata: {"c'
PAYLOADS = [b'{"a": 1}', b'{"b": "\xc3\xa9"}']


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_payloads_do_not_depend_on_chunk_boundaries(cuts):
    parser, at, payloads = SseParser(), 0, []
    for cut in [*sorted(cuts), len(STREAM)]:
        payloads += parser.feed(STREAM[at:cut])
        at = cut
    assert payloads == PAYLOADS


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_lines_or_pending(parts):
    parser = SseParser()
    payloads = [payload for part in parts for payload in parser.feed(part)]
    *lines, rest = b"".join(parts).split(b"\n")
    assert payloads == [line[5:].strip() for line in lines if line.startswith(b"data:")]
    assert parser.pending == len(rest)


async def test_an_event_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 50_000)

    async def endless(received):
        response = web.StreamResponse()
        await response.prepare(received)
        with suppress(ConnectionError):
            while True:
                await response.write(b"data: " + b"x" * 1000)
        return response

    async with client_of(endless) as client:
        with pytest.raises(BackendFailed, match="more than 50,000 bytes"):
            await events(client, request("hi"))
