"""The events of one answer, as a backend sends them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

import httpx
from pydantic import ValidationError

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, BackendLost

from .faults import backend_error, within
from .read_ahead import ReadAhead, SseParser


class EventStream:
    """The events of one answer, in lists: all that had arrived when it was looked for.

    Raises the error of an ErrorEvent, and BackendFailed when the stream ends before its choices.
    """

    def __init__(
        self,
        response: httpx.Response,
        request: wire.GenerateRequest,
        idle_timeout: float,
        deadline: float,
        begin_by: float,
    ) -> None:
        self._response = response
        self._choices_left = request.sampling.n
        self._idle_timeout = idle_timeout
        self.deadline = deadline
        """When it must be over, by time.monotonic."""
        self._due = begin_by
        """When its first token must have come, and once one has, the deadline."""
        self._batches = self._streamed() if request.stream else self._collected()

    def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]:
        return self._batches

    async def aclose(self) -> None:
        await self._batches.aclose()
        await self._response.aclose()

    async def _streamed(self) -> AsyncGenerator[list[wire.StreamEvent], None]:
        parser, ahead = SseParser(), ReadAhead(self._response.aiter_bytes())
        async with aclosing(ahead):
            while (data := await self._take(ahead)) is not None:
                for batch in self._checked(_events(parser.feed(data))):
                    yield batch
        self._check_ended()

    async def _collected(self) -> AsyncGenerator[list[wire.StreamEvent], None]:
        async with within(self.deadline - time.monotonic(), "finish its answer"):
            body = await self._response.aread()
        try:
            events = wire.stream_events.validate_json(body)
        except ValidationError as error:
            raise BackendFailed("The backend's answer is not understood.") from error
        for batch in self._checked(events):
            yield batch
        self._check_ended()

    async def _take(self, ahead: ReadAhead) -> bytes | None:
        limit = min(self._idle_timeout, self._due - time.monotonic())
        async with within(limit, "go on with its answer"):
            return await ahead.take()

    def _checked(self, events: list[wire.StreamEvent]) -> Iterator[list[wire.StreamEvent]]:
        """The events up to an ErrorEvent, whose error is raised after them."""
        for position, event in enumerate(events):
            if isinstance(event, wire.ErrorEvent):
                if position:
                    yield events[:position]
                raise backend_error(event.status, {"error": event.error})
            if isinstance(event, wire.TokensEvent | wire.EndEvent):
                self._due = self.deadline
            if isinstance(event, wire.EndEvent):
                self._choices_left -= 1
        if events:
            yield events

    def _check_ended(self) -> None:
        if self._choices_left > 0:
            raise BackendLost("The backend broke off in the middle of its answer.")


def _events(payloads: list[bytes]) -> list[wire.StreamEvent]:
    try:
        return wire.stream_events.validate_json(b"[" + b",".join(payloads) + b"]")
    except ValidationError as error:
        raise BackendFailed("The backend sent an event that is not understood.") from error
