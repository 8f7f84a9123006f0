"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ....chat.response import ChatResponse, ResponseEvent
from ...shared.sse import with_escaped_line_ends
from .body import Body, is_summarized
from .collector import Output
from .items import Event


class ResponseStream:
    """The server-sent events of one response. Each has its type in `event:` and in its data, and a
    sequence number."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._output = Output(response, summarized=is_summarized(response.request.repeated))
        self._sent = 0

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        made: list[Event] = []
        if not self._sent:
            start = self._body.at_start()
            made += ({"type": f"response.{name}", "response": start} for name in STARTS)
        return self._numbered([*made, *self._output.add(events)])

    def end(self) -> bytes:
        body = self._body.at_end(self._output)
        return self._numbered([{"type": f"response.{body['status']}", "response": body}])

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """`error`: the error object, with `code` and `message`."""
        self._output.interrupt()
        body = self._body.failed(self._output, error)
        return self._numbered([{"type": "response.failed", "response": body}])

    def _numbered(self, events: Iterable[Event]) -> bytes:
        written: list[bytes] = []
        for event in events:
            kind = event.pop("type")
            numbered = {"type": kind, "sequence_number": self._sent, **event}
            written.append(server_sent(kind, numbered))
            self._sent += 1
        return b"".join(written)


STARTS = ("created", "in_progress")


class WholeResponse:
    """A response object."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._output = Output(response, summarized=is_summarized(response.request.repeated))

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    def body(self) -> dict[str, Any]:
        return self._body.at_end(self._output)


def server_sent(kind: str, data: Mapping[str, Any]) -> bytes:
    event = b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
    return with_escaped_line_ends(event)
