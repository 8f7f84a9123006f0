"""A backend whose responses are attacks: raw bytes that an honest backend never sends.

A message `info` is answered as by an honest backend until an attack replaces it. A request to
generate or to count is answered by the attack whose name is its last message. It can also hang.
"""

import asyncio
import gzip
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers.fake_backend import INFO
from toolgate_core.chat_shape import MEMBER

LONGEST = 15.0
"""Seconds after which an endless response ends."""
PART = 65_536
"""Size of the parts of endless bodies."""

Parts = Callable[[], Iterable[bytes]]


def head(status=200, *fields):
    """The head of a response that ends with its connection."""
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", *fields, "connection: close"]
    return "\r\n".join((*lines, "", "")).encode()


def sent(body, status=200, *fields):
    """A response with this body: bytes, or a value that is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda: (head(status, *fields), content)


def endless(part, status=200, begin=b"", *fields):
    """A body that repeats `part` for as long as it is read."""
    many = part * max(1, PART // len(part))
    return lambda: itertools.chain((head(status, *fields), begin), itertools.repeat(many))


def compressed(megabytes):
    """A small body with gzip that is large without it. The request asked for no compression."""
    content = gzip.compress(b"[" + b" " * (megabytes * 1_000_000) + b"]", 1)
    return lambda: (head(200, "content-encoding: gzip"), content)


def nested(depth):
    return b'{"error":' + b"[" * depth + b"]" * depth + b"}"


def generated(*events):
    """The events of a whole response; those that `events` lacks are honest ones."""
    given = {event["event"]: event for event in events}
    start = {"event": "start", "prompt_tokens": 3, "reasoning_open": False}
    tokens = {"event": "tokens", "choice": 0, "ids": [101, 102], "texts": ["a", "b"]}
    end = {"event": "end", "choice": 0, "finish_reason": "stop"}
    usage = {"event": "usage", "prompt_tokens": 3, "completion_tokens": 2}
    return [{**each, **given.get(str(each["event"]), {})} for each in (start, tokens, end, usage)]


def stream(events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@dataclass
class HostileBackend:
    attacks: dict[str, Parts] = field(default_factory=dict)
    """By the last message of a request."""
    routes: dict[str, Parts] = field(default_factory=dict)
    """By the name of the message."""
    url: str = ""
    sent: int = 0
    """Bytes."""
    hangs: bool = False
    """Whether it accepts connections and requests, and sends nothing."""

    def respond(self, body):
        asked = json.loads(body)
        op = asked[MEMBER]["op"]
        if op in self.routes:
            return self.routes[op]()
        if op == "info":
            return sent(INFO.model_dump(mode="json"))()
        return self.attacks[asked["messages"][-1]["content"]]()

    async def serve(self, reader, writer):
        try:
            begin = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next(
                (int(line[15:]) for line in begin.split("\r\n") if line[:15] == "content-length:"),
                0,
            )
            body = await reader.readexactly(length)
            while self.hangs:  # noqa: ASYNC110  set in another thread
                await asyncio.sleep(0.02)
            until = time.monotonic() + LONGEST
            for part in self.respond(body):
                writer.write(part)
                self.sent += len(part)
                await writer.drain()
                if time.monotonic() > until:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@contextmanager
def running(backend):
    """Serves the backend at a free port of the loopback interface, in a thread."""
    loop, started = asyncio.new_event_loop(), threading.Event()

    async def start():
        server = await asyncio.start_server(backend.serve, "127.0.0.1", 0)
        backend.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()

    def run():
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield backend
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


FAILED = ((502, "backend_failed"),)
LOST = ((503, "backend_unavailable"),)
"""Of a response whose head can't be read, so that another backend is asked."""
START = b'data: {"event":"start","prompt_tokens":3,"reasoning_open":false}\n\n'
TOKENS = b'data: {"event":"tokens","choice":0,"ids":[101],"texts":["abc "]}\n\n'
EITHER = (*FAILED, *LOST)
INVALID = ((400, "invalid_request"),)
TOO_SMALL = ((400, "max_tokens_too_small"),)
LOGPROB = {"token": "a", "bytes": [97], "logprob": -0.5}
REFUSED = {"key": "other", "status": "refused", "reason": "No."}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
MANY_FIELDS = b"".join(b"x-%d: y\r\n" % at for at in range(5000))
DIGITS = b"9" * 100_000
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n"
INFINITE = (
    json.dumps(generated({"event": "tokens", "logprobs": [LOGPROB] * 2}))
    .replace("-0.5", "-1e999")
    .encode()
)


def events(*changed):
    """A whole response with these changes."""
    return sent(generated(*changed))


def streamed(*changed):
    return sent(stream(generated(*changed)))


def start(**fields):
    return {"event": "start", **fields}


def tokens(**fields):
    return {"event": "tokens", **fields}


def usage(**fields):
    return {"event": "usage", **fields}


def refused(status=400, **error):
    return sent({"error": {"message": "No.", **error}}, status)


def failing(status, **error):
    return sent([{"event": "error", "status": status, "error": {"message": "No.", **error}}])


def raw(begin, part):
    return lambda: itertools.chain((begin,), itertools.repeat(part))


def info(**limits):
    described = INFO.model_dump(mode="json")
    return sent(described | {"limits": described["limits"] | limits})


@dataclass(frozen=True)
class Attack:
    name: str
    send: Parts
    expected: tuple[tuple[int, str], ...] = FAILED
    """Status and code, any of these."""
    path: str = "generate"
    """The message that is attacked."""
    body: dict[str, Any] = field(default_factory=dict)
    """Parameters of the request."""


STREAM = {"stream": True}
LOGPROBS = {"logprobs": True, "top_logprobs": 1}
COLLECTED = {"stop": ["zzz"]}
"""The backend streams, and the gateway collects the response."""

ATTACKS = (
    # Bodies without end, or larger than they look.
    Attack("comments", endless(b": keep-alive\n\n")),
    Attack("comments in a stream", endless(b": keep-alive\n\n"), body=STREAM),
    Attack("spaces", endless(b" ", 200, b"[")),
    Attack("error without end", endless(b"x", 500)),
    Attack("error without end to a stream", endless(b"x", 503), body=STREAM),
    Attack("event without end", endless(b"x", 200, b"data: "), body=STREAM),
    Attack("start events", endless(START), body=STREAM),
    Attack("tokens", endless(TOKENS, 200, START), body=COLLECTED),
    Attack("gzip", compressed(500)),
    Attack("gzip in a stream", compressed(500), body=STREAM),
    Attack("many values", sent(b"[" + b",".join([b"{}"] * 400_000) + b"]")),
    Attack("many fields", sent(b'[{"event":"end"' + b',"x":1' * 200_000 + b"}]")),
    Attack("declared length", lambda: (head(200, "content-length: 9999999999"),)),
    # HTTP.
    Attack("headers", raw(b"HTTP/1.1 200 OK\r\n", MANY_FIELDS), LOST),
    Attack("trailers", raw(CHUNKED, MANY_FIELDS), EITHER),
    Attack("interim responses", raw(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)),
    Attack("redirect", sent(b"", 307)),
    # Events that contradict themselves.
    Attack("fewer texts", events(tokens(texts=["a"]))),
    Attack("fewer texts in a stream", streamed(tokens(texts=["a"])), body=STREAM),
    Attack("fewer ids", events(tokens(ids=[101]))),
    Attack("no logprobs", events(tokens(logprobs=[])), body=LOGPROBS),
    Attack("fewer logprobs", events(tokens(logprobs=[LOGPROB])), body=LOGPROBS),
    Attack("large byte", events(tokens(logprobs=[LOGPROB | {"bytes": [300]}] * 2)), body=LOGPROBS),
    Attack("infinite logprob", sent(INFINITE), body=LOGPROBS),
    Attack("choice", events(tokens(choice=2**40))),
    Attack("token id", events(tokens(ids=[101, 2**64])), body={"return_token_ids": True}),
    Attack("stop reason", events({"event": "end", "stop_reason": 2**64})),
    # Usage, which settles budgets.
    Attack("negative usage", events(usage(completion_tokens=-340_000))),
    Attack("negative prompt", events(usage(prompt_tokens=-340_000))),
    Attack("large usage", events(usage(completion_tokens=2**64))),
    Attack("usage beyond the tokens", events(usage(completion_tokens=340_000))),
    Attack("tokens beyond the maximum", events(), body={"max_tokens": 1}),
    Attack(
        "long prompt", events({"event": "start", "prompt_tokens": 9999}, usage(prompt_tokens=9999))
    ),
    Attack("usage of another prompt", events(usage(prompt_tokens=340_000))),
    Attack("cached beyond the prompt", events(usage(cached_tokens=4))),
    Attack("digits", sent(b'[{"event":"usage","prompt_tokens":' + DIGITS + b"}]")),
    Attack("negative usage in a stream", streamed(usage(completion_tokens=-9)), body=COLLECTED),
    # Verdicts on new grammars.
    Attack("no verdict", streamed(), body={"tools": [TOOL]}),
    Attack("verdict on another", streamed(start(verdicts=[REFUSED])), body={"tools": [TOOL]}),
    Attack("no start", sent(stream(generated()[1:])), body={"tools": [TOOL]}),
    Attack("verdicts in gzip", compressed(500), body={"tools": [TOOL]}),
    # Errors.
    Attack("nested error", sent(nested(200_000), 500)),
    Attack("nested refusal", sent(nested(20_000), 400), INVALID),
    Attack("digits in an error", sent(b'{"error":{"message":' + DIGITS + b"}}", 500)),
    Attack("error of keys", refused(401, code="invalid_api_key"), LOST),
    Attack("error event of keys", failing(401, code="invalid_api_key"), LOST),
    Attack("error event of limits", failing(500, code="insufficient_quota")),
    Attack("status of an error event", failing(200)),
    Attack("error without message", sent({"error": {"message": [1]}}, 500)),
    Attack("least tokens", refused(code="max_tokens_too_small", least_max_tokens="x"), TOO_SMALL),
    Attack("parameter", refused(code="invalid_request", param={"a": 1}), INVALID),
    Attack("verdicts", refused(409, code="grammars_refused", verdicts=7)),
    Attack("invalid verdict", refused(409, code="grammars_refused", verdicts=[{"key": 7}])),
    Attack("verdicts on others", refused(409, code="grammars_refused", verdicts=[REFUSED])),
    # Other routes.
    Attack("count", sent({"tokens": -1}), path="count"),
    Attack("large count", sent({"tokens": 2**64}), path="count"),
    Attack("count without end", endless(b" "), path="count"),
    Attack("info without end", endless(b" "), EITHER, path="info"),
    Attack("info in gzip", compressed(500), EITHER, path="info"),
    Attack("nested info", sent(nested(200_000)), EITHER, path="info"),
    Attack("negative context", info(max_model_len=-1), EITHER, path="info"),
    Attack("large context", info(max_model_len=2**64), EITHER, path="info"),
)
