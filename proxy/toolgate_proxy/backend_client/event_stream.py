"""Stream of a generation's events, as the backend sends them."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing

import aiohttp
from pydantic import ValidationError

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, BackendLost

from .body import ADVICE, Body, GenerationBound
from .faults import backend_error, within

MAX_EVENT_BYTES = 64_000_000
"""Maximum size of one event of a stream, whatever the request asks for. The start event may have
the prompt's text and token ids."""


class EventStream:
    """Iterates over lists of events: each list has all events that had arrived by then.

    Raises the error of an ErrorEvent, and BackendLost when the stream ends before its choices do.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        request: wire.GenerateRequest,
        bound: GenerationBound,
        idle_timeout: float,
        deadline: float,
        begin_by: float,
        note: Callable[[wire.StartEvent], object] = lambda _: None,
    ) -> None:
        """Raise BackendFailed for a response that is compressed or too large."""
        self._note = note
        self._response = response
        self._body = Body(response, bound.body)
        self._bound = bound
        self._prompt_tokens: int | None = None
        self._received = 0
        """Tokens of all choices."""
        self._choices_left = request.sampling.n
        self._idle_timeout = idle_timeout
        self.deadline = deadline
        """Time (time.monotonic) by which the stream must end."""
        self._due = begin_by
        """Time by which the first token must arrive; after that, the deadline."""
        self._batches = self._streamed() if request.stream else self._collected()

    def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]:
        return self._batches

    async def start(self) -> wire.StartEvent:
        """Wait for the first event. Iteration yields it all the same. Raise ToolgateError."""
        nothing: list[wire.StreamEvent] = []
        batch = await anext(self._batches, nothing)
        if not batch or not isinstance(first := batch[0], wire.StartEvent):
            raise BackendFailed(f"The backend sent no start event. {ADVICE}")
        self._batches = _before(batch, self._batches)
        return first

    async def aclose(self) -> None:
        await self._batches.aclose()
        self._response.close()

    async def _streamed(self) -> AsyncGenerator[list[wire.StreamEvent], None]:
        parser = SseParser()
        while data := await self._read():
            if payloads := parser.feed(data):
                for batch in self._checked(await self._events(b"[" + b",".join(payloads) + b"]")):
                    yield batch
            if parser.pending > MAX_EVENT_BYTES:
                raise BackendFailed(
                    f"The backend sent an event of more than {MAX_EVENT_BYTES:,} bytes. {ADVICE}"
                )
        self._check_ended()

    async def _collected(self) -> AsyncGenerator[list[wire.StreamEvent], None]:
        left = self.deadline - time.monotonic()
        body = await within(self._body.whole(), left, "finish its response")
        for batch in self._checked(await self._events(body)):
            yield batch
        self._check_ended()

    async def _events(self, body: bytes | bytearray) -> list[wire.StreamEvent]:
        """Return the events of a JSON array."""
        try:
            return await self._body.parsed(body, wire.stream_events.validate_json)
        except ValidationError as error:
            raise BackendFailed(f"The backend sent an invalid event. {ADVICE}") from error

    async def _read(self) -> bytes:
        """Return all bytes that have arrived, at least one; empty at the end of the response.

        aiohttp's buffer joins what arrives while this process is busy, so a busy gateway handles
        many tokens at once, and an idle one each token as it arrives.
        """
        limit = min(self._idle_timeout, self._due - time.monotonic())
        return await within(self._body.part(), limit, "continue its response")

    def _checked(self, events: list[wire.StreamEvent]) -> Iterator[list[wire.StreamEvent]]:
        """Yield the events before an ErrorEvent; then raise that event's error."""
        for position, event in enumerate(events):
            if isinstance(event, wire.ErrorEvent):
                if position:
                    yield events[:position]
                raise backend_error(event.status, {"error": event.error})
            self._check(event)
        if events:
            yield events

    def _check(self, event: wire.StreamEvent) -> None:
        """Note how far the response is. Raise BackendFailed for what the types of the messages do
        not exclude. Budgets of keys are settled by these numbers."""
        match event:
            case wire.TokensEvent():
                self._due = self.deadline
                tokens = len(event.ids)
                self._received += tokens
                logprobs = tokens if event.logprobs is None else len(event.logprobs)
                if not tokens == len(event.texts) == logprobs:
                    raise BackendFailed(
                        f"The backend sent an event with {tokens} token ids, {len(event.texts)} "
                        f"texts and {logprobs} logprobs. {ADVICE}"
                    )
                valid = self._received <= self._bound.tokens
            case wire.StartEvent():
                self._prompt_tokens = event.prompt_tokens
                valid = event.prompt_tokens <= self._bound.prompt_tokens
                self._note(event)
            case wire.UsageEvent():
                valid = (
                    event.prompt_tokens == self._prompt_tokens
                    and event.completion_tokens <= self._received
                    and event.cached_tokens <= event.prompt_tokens
                )
            case wire.EndEvent():
                self._due = self.deadline
                self._choices_left -= 1
                return
            case _:
                return
        if not valid:
            raise BackendFailed(
                "The backend sent or reported more tokens than this request can have, or a usage "
                f"that differs from the tokens that it sent. {ADVICE}"
            )

    def _check_ended(self) -> None:
        if self._choices_left > 0:
            raise BackendLost("The backend closed the connection mid-response.")


async def _before(
    first: list[wire.StreamEvent], rest: AsyncGenerator[list[wire.StreamEvent], None]
) -> AsyncGenerator[list[wire.StreamEvent], None]:
    async with aclosing(rest):
        yield first
        async for batch in rest:
            yield batch


PAYLOAD = re.compile(rb"^data: ?([^\r\n]*)", re.MULTILINE)


class SseParser:
    """Parser of server-sent events (WHATWG HTML, section 9.2). It takes bytes in parts of any size
    and returns the payloads of completed `data:` lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The parts of the line that is not complete yet."""
        self.pending = 0
        """Bytes of that line."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of completed lines. Skip comments, blank lines and other fields."""
        end, payloads = data.rfind(b"\n") + 1, list[bytes]()
        if end:
            lines = data[:end]
            if self._rest:
                lines = b"".join((*self._rest, lines))
                self._rest.clear()
                self.pending = 0
            payloads = PAYLOAD.findall(lines)
        if rest := data[end:]:
            self._rest.append(rest)
            self.pending += len(rest)
        return payloads
