"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....chat.response import ChatResponse, ResponseEvent
from ...shared.output import typed_events
from ...surface import ANY_CLIENT, Client
from ..feature import written_of
from ..output_items import Event
from ..state import store
from .body import Body, failed_response, is_summarized
from .collector import Output

ENDS = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.failed",  # OpenAI documents no event of its own
}
"""The type of the last event by the response's status."""


class ResponseStream:
    """The server-sent events of one response. Each has its type in `event:` and in its data, and a
    sequence number."""

    def __init__(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> None:
        self._body = Body(response, model, client.queued)
        self._written = written_of(response.request)
        summarized = is_summarized(self._written.values)
        self._output = Output(response, summarized=summarized)
        self._client = client
        self._kept: dict[str, Any] | None = None
        self._sent = 0

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        first: list[bytes] = []
        if not self._sent:
            first = self._numbered(first_events(self._body.at_start()))
        return b"".join((*first, *self._numbered(self._output.add(events))))

    async def keep(self) -> None:
        body = self._body.at_end(self._output)
        self._kept = await store(body, self._written.input, self._client)

    def end(self) -> bytes:
        last = last_event(self._kept or self._body.at_end(self._output))
        return b"".join(self._numbered([last]))

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """Return the last event, of a failed response. `error`: the error object."""
        self._output.interrupt()
        body = self._body.failed(self._output, error)
        return b"".join(self._numbered([last_event(body)]))

    def _numbered(self, events: Iterable[Event]) -> list[bytes]:
        written = numbered(events, self._sent)
        self._sent += len(written)
        return written


class WholeResponse:
    """A response object."""

    def __init__(self, response: ChatResponse, model: str, client: Client) -> None:
        self._body = Body(response, model, client.queued)
        self._written = written_of(response.request)
        summarized = is_summarized(self._written.values)
        self._output = Output(response, summarized=summarized)
        self._client = client
        self._kept: dict[str, Any] | None = None

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    async def keep(self) -> None:
        body = self._body.at_end(self._output)
        self._kept = await store(body, self._written.input, self._client)

    def body(self) -> dict[str, Any]:
        return self._kept or self._body.at_end(self._output)


def first_events(start: Mapping[str, Any]) -> list[Event]:
    """Return the events that begin a response. `start`: the response object before the first
    item."""
    created, queued = start, []
    if start.get("background"):
        created = {**start, "status": "queued"}
        queued = [{"type": "response.queued", "response": created}]
    return [
        {"type": "response.created", "response": created},
        *queued,
        {"type": "response.in_progress", "response": {**start, "status": "in_progress"}},
    ]


def last_event(body: Mapping[str, Any]) -> Event:
    return {"type": ENDS[body["status"]], "response": body}


def numbered(events: Iterable[Event], first: int) -> list[bytes]:
    """Return the server-sent events, with sequence numbers from `first`."""
    return [typed_events([event]) for event in _with_numbers(events, first)]


def _with_numbers(events: Iterable[Event], first: int) -> Iterator[Event]:
    for at, event in enumerate(events, first):
        yield {"type": event["type"], "sequence_number": at, **event}


def error_event(error: Mapping[str, Any], number: int = 0) -> bytes:
    """Return the event that reports an error. `error`: the error object. OpenAI documents its
    fields at the top of the event and sends them in `error`, so both forms are there."""
    shown = {name: error.get(name) for name in ("code", "message", "param")}
    return typed_events([{"type": "error", "sequence_number": number, **shown, "error": error}])


def failed_events(error: Mapping[str, Any]) -> bytes:
    """Return the events that report an error before the first event of a response, as OpenAI sends
    them: SDKs raise the first one, and older versions of Codex read the second one only."""
    failed = {"type": "response.failed", "response": failed_response(error)}
    return error_event(error) + b"".join(numbered([failed], 1))
