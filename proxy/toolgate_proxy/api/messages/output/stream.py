"""Streamed and complete responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ....chat.response import ChatResponse, ResponseEvent
from ...shared.sse import with_escaped_line_ends
from ...surface import Stateless
from .blocks import Event
from .body import Body
from .collector import Content


class MessageStream(Stateless):
    """The server-sent events of one message. Each has its type in `event:` and in its data."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._content = Content(response)
        self._begun = False

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        made: list[Event] = []
        if not self._begun:
            self._begun = True
            made.append({"type": "message_start", "message": self._body.at_start()})
        return server_sent([*made, *self._content.add(events)])

    def end(self) -> bytes:
        return server_sent([self._body.delta(self._content), {"type": "message_stop"}])

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return server_sent([{"type": "error", "error": error}])


class WholeMessage(Stateless):
    """A message object."""

    def __init__(self, response: ChatResponse, model: str) -> None:
        self._body = Body(response, model)
        self._content = Content(response)

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._content.add(events):
            pass

    def body(self) -> dict[str, Any]:
        return self._body.whole(self._content)


def server_sent(events: Iterable[Mapping[str, Any]]) -> bytes:
    made = (
        b"event: " + event["type"].encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"
        for event in events
    )
    return with_escaped_line_ends(b"".join(made))
