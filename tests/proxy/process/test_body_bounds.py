"""Bodies at and over each bound, sent to a running gateway: right status, no long pause, no growth.

The gateway has small limits, and its time limits are shorter than those of the test's client. Its
loop is observed through a second connection.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.support.fake_backend import INFO, FakeBackend, running
from tests.support.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.http_client import bearer, http_client
from tests.support.script import Script
from toolgate_core import wire

CHAT = "/v1/chat/completions"
MAX_BODY = 8_000_000
LIMITS = wire.Limits(
    max_model_len=4096, max_logprobs=20, max_grammars=64, vocabulary=1000, max_token_bytes=100
)
ROOM = 4096 * 100
HEADER_SECONDS = 1.0
BODY_SECONDS = 1.5
LONGEST_PAUSE = 0.25
"""Seconds, in addition to the longest pause of the idle gateway."""


@pytest.fixture(scope="module")
def bounded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Gateway, FakeBackend]]:
    backend = FakeBackend()
    backend.info = INFO.model_copy(update={"limits": LIMITS})
    backend.scripts["hi"] = Script(("Hello there",))
    log = tmp_path_factory.mktemp("bounded") / "log"
    limits = {
        "TOOLGATE_MAX_BODY_BYTES": str(MAX_BODY),
        "TOOLGATE_HEADER_TIMEOUT": str(HEADER_SECONDS),
        "TOOLGATE_BODY_TIMEOUT": str(BODY_SECONDS),
    }
    with (
        running(backend),
        serving(["--model", "tiny"], backend.url, log, None, **limits) as gateway,
    ):
        yield gateway, backend


@pytest.fixture
async def http(bounded: tuple[Gateway, FakeBackend]) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(bounded[0].url, headers=bearer(MASTER_KEY), timeout=30) as client:
        yield client


def chat(content: str = "hi", **more: Any) -> bytes:
    body = {"model": "tiny", "messages": [{"role": "user", "content": content}]} | more
    return json.dumps(body).encode()


def tool(parameters: object) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def one_of(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"oneOf": [schema, {"type": "integer"}]}
    return schema


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def bias(tokens: range) -> dict[str, int]:
    return {str(token): 1 for token in tokens}


@dataclass(frozen=True)
class Case:
    make: Callable[[], bytes]
    statuses: tuple[int, ...]
    code: str | None = None
    path: str = CHAT
    headers: dict[str, str] = field(default_factory=dict)


CASES = {
    "one token": Case(lambda: chat(logit_bias={"1": 1}), (200,)),
    "biases at the vocabulary": Case(lambda: chat(logit_bias=bias(range(1000))), (200,)),
    "biases outside": Case(lambda: chat(logit_bias=bias(range(500, 1100))), (400,)),
    "200,000 biases": Case(lambda: chat(logit_bias=bias(range(100_000, 300_000))), (400, 413)),
    "190,000 biases": Case(lambda: chat(logit_bias=bias(range(100_000, 290_000))), (400,)),
    "all tokens allowed": Case(lambda: chat(allowed_token_ids=list(range(1000))), (200,)),
    "190,000 allowed": Case(lambda: chat(allowed_token_ids=list(range(190_000))), (400,)),
    "190,000 stop tokens": Case(lambda: chat(stop_token_ids=list(range(190_000))), (400,)),
    "long stop string": Case(lambda: chat(stop=["s" * 1_000_000]), (400,)),
    "long bad word": Case(lambda: chat(bad_words=["b" * 1_000_000]), (400,)),
    "long cache salt": Case(lambda: chat(cache_salt="c" * 1_000_000), (400,)),
    "1 MB model": Case(lambda: chat(model="m" * 1_000_000), (400,), "invalid_request"),
    "256 characters of model": Case(lambda: chat(model="m" * 256), (400, 404)),
    "long name": Case(lambda: chat(**{"p" * 1_000_000: 1}), (400,), "unsupported_parameter"),
    "long role": Case(lambda: chat(messages=[{"role": 3, "content": "r" * 10**6}]), (400,)),
    "10,001 messages": Case(lambda: chat(messages=[{}] * 10_001), (400,)),
    "1,001 tools": Case(lambda: chat(tools=tool({}) * 1_001), (400,)),
    "10,000 anyOf": Case(
        lambda: chat(tools=tool({"anyOf": [{"const": at} for at in range(10_000)]})), (200, 400)
    ),
    "60 oneOf": Case(lambda: chat(tools=tool(one_of(60))), (200, 400)),
    "deep oneOf": Case(lambda: chat(tools=tool(one_of(190))), (400,)),
    "200 levels": Case(lambda: chat(metadata=nested(197)), (200,)),
    "201 levels": Case(lambda: chat(metadata=nested(201)), (400,)),
    "900 levels": Case(lambda: chat(metadata=nested(900)), (400,)),
    "100,000 brackets": Case(lambda: b"[" * 100_000, (400,)),
    "text over the context": Case(lambda: chat("t" * ROOM), (400,), "context_length_exceeded"),
    "7 MB of text": Case(lambda: chat("t" * 7_000_000), (400,), "context_length_exceeded"),
    "7 MB of quotes": Case(lambda: chat('"' * 3_500_000), (400,), "context_length_exceeded"),
    "over the limit": Case(lambda: chat("t" * MAX_BODY), (413,), "request_too_large"),
    "4 million numbers": Case(
        lambda: b'{"a":[' + b"1," * 3_900_000 + b"1]}", (413,), "request_too_large"
    ),
    "2.5 million objects": Case(
        lambda: b'{"a":[' + b"{}," * 2_500_000 + b"1]}", (413,), "request_too_large"
    ),
    "LiteLLM's route over the limit": Case(
        lambda: b"x" * (MAX_BODY + 1), (413,), "request_too_large", "/v1/moderations"
    ),
    "compressed": Case(
        lambda: gzip.compress(b" " * 10**8 + chat()),
        (415,),
        "unsupported_encoding",
        headers={"content-encoding": "gzip"},
    ),
    "compressed, LiteLLM's route": Case(
        lambda: gzip.compress(b" " * 10**8),
        (415,),
        "unsupported_encoding",
        "/v1/moderations",
        {"content-encoding": "gzip"},
    ),
}


async def send(http: httpx.AsyncClient, case: Case, *, chunked: bool) -> httpx.Response:
    content = case.make()

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 60_000):
            yield content[at : at + 60_000]

    headers = {"content-type": "application/json"} | case.headers
    body = parts() if chunked else content
    return await http.post(case.path, content=body, headers=headers)


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[list[float]]:
    """The times of responses to a cheap route on a connection of its own, in seconds."""
    pauses: list[float] = []

    async def poll() -> None:
        async with http_client(url, timeout=60) as http:
            while True:
                began = time.perf_counter()
                await http.get("/health/liveliness")
                pauses.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)

    task = asyncio.create_task(poll())
    try:
        yield pauses
    finally:
        task.cancel()


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
@pytest.mark.parametrize("name", CASES)
async def test_status_of_a_body(http: httpx.AsyncClient, name: str, chunked: bool) -> None:
    case = CASES[name]
    response = await send(http, case, chunked=chunked)
    assert response.status_code in case.statuses, response.text[:500]
    assert len(response.content) < 5_000
    if response.status_code != 200:
        error = response.json()["error"]
        assert error["message"]
        assert case.code in (None, error["code"])
