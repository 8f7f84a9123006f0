"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgate_core.errors import ClientDisconnected

from ....chat.response import ChatResponse, ResponseEvent
from ....response_store.live import LiveResponse
from ...shared.output import typed_events
from ...surface import ANY_CLIENT, Client
from ..state.history import begin, store
from .body import Body, failed_response, is_summarized
from .collector import Output
from .items import Event

GONE = ClientDisconnected(
    "The client that requested this response disconnected before its end, so it was cancelled. "
    "Send the request again."
)
"""The end of a cancelled response, for its other readers."""
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
        background = client.background
        self._body = Body(response, model, None if background is None else background.created)
        self._repeated = response.request.repeated
        self._output = Output(response, summarized=is_summarized(self._repeated), seal=client.seal)
        self._client = client
        self._live: LiveResponse | None = None
        """Keeps the events of a response that is to be stored."""
        self._kept: dict[str, Any] | None = None
        self._sent = 0

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        first: list[bytes] = []
        if not self._sent:
            start = self._body.at_start()
            first = self._numbered(first_events(start))
            self._live = begin(start, self._repeated, self._client)
        added = list(self._output.add(events))
        written = self._numbered(added)
        if self._live is not None:
            for event, sent in zip(added, written, strict=True):
                self._live.add(event, len(sent))
        return b"".join((*first, *written))

    async def keep(self) -> None:
        body = self._body.at_end(self._output)
        log = self._live.log if self._live is not None else None
        self._kept = await store(body, self._repeated, self._client, log)

    def end(self) -> bytes:
        return self._ended(last_event(self._kept or self._body.at_end(self._output)))

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """Return the last event, of a failed response. `error`: the error object."""
        self._output.interrupt()
        body = self._body.failed(self._output, error)
        return self._ended({"type": "response.failed", "response": body})

    def close(self) -> None:
        if self._live is not None and not self._live.ended:
            self.failed(GONE.body()["error"])

    def _ended(self, event: Event) -> bytes:
        if self._live is not None and not self._live.ended:
            self._live.end(event)
        return b"".join(self._numbered([event]))

    def _numbered(self, events: Iterable[Event]) -> list[bytes]:
        written = numbered(events, self._sent)
        self._sent += len(written)
        return written


class WholeResponse:
    """A response object."""

    def __init__(self, response: ChatResponse, model: str, client: Client) -> None:
        self._body = Body(response, model)
        self._repeated = response.request.repeated
        self._output = Output(response, summarized=is_summarized(self._repeated), seal=client.seal)
        self._client = client
        self._kept: dict[str, Any] | None = None

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    async def keep(self) -> None:
        body = self._body.at_end(self._output)
        self._kept = await store(body, self._repeated, self._client, None)

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
