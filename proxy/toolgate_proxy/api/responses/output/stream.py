"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ....chat.response import ChatResponse, ResponseEvent
from ....response_store.record import EventLog
from ...shared.sse import with_escaped_line_ends
from ...surface import Client
from ..state.storing import store
from .body import Body, is_summarized
from .collector import Output
from .items import Event


class ResponseStream:
    """The server-sent events of one response. Each has its type in `event:` and in its data, and a
    sequence number."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._repeated = response.request.repeated
        self._output = Output(response, summarized=is_summarized(self._repeated))
        self._log: EventLog | None = None
        """Collects the events of a response that is to be stored."""
        self._kept: dict[str, Any] | None = None
        self._sent = 0

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        made: list[Event] = []
        if not self._sent:
            start = self._body.at_start()
            made += first_events(start)
            self._log = EventLog(start) if start["store"] else None
        added = list(self._output.add(events))
        if self._log is not None:
            for each in added:
                self._log.add(each)
        return self._numbered([*made, *added])

    async def keep(self, client: Client) -> None:
        body = self._body.at_end(self._output)
        self._kept = await store(body, self._repeated, client, self._log)

    def end(self) -> bytes:
        return self._numbered([last_event(self._kept or self._body.at_end(self._output))])

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """`error`: the error object, with `code` and `message`."""
        self._output.interrupt()
        body = self._body.failed(self._output, error)
        return self._numbered([{"type": "response.failed", "response": body}])

    def _numbered(self, events: Iterable[Event]) -> bytes:
        written = numbered(events, self._sent)
        self._sent += len(written)
        return b"".join(written)


class WholeResponse:
    """A response object."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._repeated = response.request.repeated
        self._output = Output(response, summarized=is_summarized(self._repeated))
        self._kept: dict[str, Any] | None = None

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    async def keep(self, client: Client) -> None:
        body = self._body.at_end(self._output)
        self._kept = await store(body, self._repeated, client, None)

    def body(self) -> dict[str, Any]:
        return self._kept or self._body.at_end(self._output)


def first_events(start: Mapping[str, Any]) -> list[Event]:
    """`start`: the response object before the first item."""
    return [{"type": f"response.{name}", "response": start} for name in ("created", "in_progress")]


def last_event(body: Mapping[str, Any]) -> Event:
    return {"type": f"response.{body['status']}", "response": body}


def numbered(events: Iterable[Event], first: int) -> list[bytes]:
    """The server-sent events, with sequence numbers from `first`."""
    return [
        server_sent(event["type"], {"type": event["type"], "sequence_number": at, **event})
        for at, event in enumerate(events, first)
    ]


def server_sent(kind: str, data: Mapping[str, Any]) -> bytes:
    event = b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
    return with_escaped_line_ends(event)
