"""The body of a backend's response. Every byte that a backend sends is read here, within a bound.

A backend may be broken, or be another server. What it sends must not take the memory or the event
loop of a gateway that serves other models, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import aiohttp

from toolgate_core import wire
from toolgate_core.errors import BackendFailed

from ..json_values import exceeds

LARGE = 200_000
"""Size in bytes from which a body is parsed in a thread."""
ADVICE = "Check that it is a Toolgate backend of the same release."

T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """Upper bounds of a body."""

    bytes: int
    values: int
    """JSON values in one parsed part. A value of two bytes takes some hundred bytes of memory."""

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.bytes + other.bytes, self.values + other.values)

    def __mul__(self, count: int) -> Bound:
        return Bound(self.bytes * count, self.values * count)


SMALL = Bound(1_000_000, 50_000)
"""Descriptions of a backend, errors, numbers of tokens."""
GRAMMARS = Bound(32_000_000, 100_000)
"""Verdicts on grammars, with the compiled ones that go to Redis."""


class Body:
    """Reads a body. Raise BackendFailed if it is compressed or exceeds its bound."""

    def __init__(self, response: aiohttp.ClientResponse, bound: Bound) -> None:
        self._response = response
        self._bound = bound
        self._size = 0
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise BackendFailed(
                f"The backend compressed its response ({encoding[:50]!r}), though the gateway asks "
                "for responses without compression. Disable the compression of a server between "
                "them."
            )
        if (response.content_length or 0) > bound.bytes:
            raise self._too_large()

    async def part(self) -> bytes:
        """Return all bytes that have arrived, at least one; empty at the end of the body."""
        part = await self._response.content.readany()
        self._size += len(part)
        if self._size > self._bound.bytes:
            raise self._too_large()
        return part

    async def whole(self) -> bytearray:
        content = bytearray()
        while part := await self.part():
            content += part
        return content

    async def parsed(
        self, content: bytes | bytearray, parse: Callable[[bytes | bytearray], T]
    ) -> T:
        """Return `content`, a part of this body or all of it, converted by `parse`. A large one is
        converted in a thread."""
        if exceeds(content, self._bound.values):
            raise BackendFailed(
                f"The backend sent more than {self._bound.values:,} JSON values at once. {ADVICE}"
            )
        if len(content) > LARGE:
            return await asyncio.to_thread(parse, content)
        return parse(content)

    def _too_large(self) -> BackendFailed:
        return BackendFailed(
            f"The backend sent more than {self._bound.bytes:,} bytes, which is more than a "
            f"response to this request can have. {ADVICE}"
        )


MAX_INTERIM = 8


class BoundedResponse(aiohttp.ClientResponse):
    """A response with a bound on the interim responses (1xx) before it, which aiohttp reads without
    one. Reading interim responses that have arrived never waits, so without end they would stop the
    event loop."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Begin to read the response. Raise BackendFailed."""
        protocol, number = connection.protocol, count(1)
        read = protocol.read

        async def bounded() -> Any:
            if next(number) > MAX_INTERIM + 1:
                raise BackendFailed(
                    f"The backend sent more than {MAX_INTERIM} interim responses. {ADVICE}"
                )
            return await read()

        protocol.read = bounded
        try:
            return await super().start(connection)
        finally:
            del protocol.read


BASE = Bound(1_000_000, 10_000)
MAX_TOKENS = 2**20
"""Tokens of a choice whose request states no maximum, at most."""
MAX_WHOLE = Bound(64_000_000, 8_000_000)
"""For a response that is not streamed, whatever the request asks for."""
MAX_LOGPROBS = Bound(4_000_000, 100_000)
"""The same for one with logprobs: to parse and convert many at once holds up other requests."""

# Of one token, upper bounds of averages over a response.
TOKEN, PROMPT_TOKEN = Bound(160, 8), Bound(160, 1)
"""The id and the text: the longest tokens of vocabularies are runs of 128 spaces."""
EVENT = Bound(256, 12)
"""The event of one token in a stream."""
ENTRY = Bound(256, 24)
"""One alternative of a token's logprobs: its text, its bytes and its logprob."""
TRACE = Bound(512, 0)


@dataclass(frozen=True)
class GenerationBound:
    """The bound on the response to a request to generate, by what the request asks for."""

    body: Bound
    prompt_tokens: int
    tokens: int
    """Of all choices."""


def fitting(request: wire.GenerateRequest, info: wire.Info | None) -> wire.GenerateRequest:
    """Return the request, streamed if the response could be too large for one message."""
    if request.stream or info is None:
        return request
    body = _unlimited(request, info).body
    most = MAX_WHOLE if request.sampling.logprobs is None else MAX_LOGPROBS
    fits = body.bytes <= most.bytes and body.values <= most.values
    return request if fits else request.model_copy(update={"stream": True, "batched": True})


def bound_of(request: wire.GenerateRequest, info: wire.Info | None) -> GenerationBound:
    """Return the bound on the response to a request. `info`: the description of the backend."""
    bound = _unlimited(request, info)
    body = Bound(bound.body.bytes, min(bound.body.values, MAX_WHOLE.values))
    if not request.stream:
        body = Bound(min(body.bytes, MAX_WHOLE.bytes), body.values)
    return GenerationBound(body, bound.prompt_tokens, bound.tokens)


def _unlimited(request: wire.GenerateRequest, info: wire.Info | None) -> GenerationBound:
    sampling = request.sampling
    context = info.limits.max_model_len if info is not None else wire.MAX_COUNT
    most = min(context, MAX_TOKENS if sampling.max_tokens is None else sampling.max_tokens)
    entries = 0
    if sampling.logprobs is not None:
        entries = 1 + max(sampling.logprobs, len(sampling.logprob_token_ids or ()))
    each_token = TOKEN + ENTRY * entries + EVENT * request.stream
    if request.trace:
        each_token += TRACE
    tokens, prompt = sampling.n * most, min(context, MAX_TOKENS)
    body = BASE + each_token * tokens
    if request.return_prompt_ids or request.return_prompt_text:
        body += PROMPT_TOKEN * prompt
    if sampling.prompt_logprobs is not None:
        entries = prompt * (sampling.prompt_logprobs + 1)
        body += ENTRY * min(entries, wire.MAX_PROMPT_LOGPROBS)
    return GenerationBound(body, prompt_tokens=context, tokens=tokens)
