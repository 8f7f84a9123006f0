"""A client of one API of one server that keeps all that a response consists of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

Body = dict[str, Any]
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Event:
    name: str | None
    """The `event:` line."""
    data: Body


@dataclass
class Reply:
    """A response. `body` is that of a response that is not streamed, or of an error."""

    status: int
    body: Body = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    text: str = ""
    """The whole response as received."""


class Client:
    """Sends requests to `path`. `headers` are those of every request."""

    def __init__(self, url: str, path: str, model: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False
        )
        self.path = path
        self.model = model

    def post(self, body: Body, path: str = "", headers: dict[str, str] | None = None) -> Reply:
        """`body` without its model gets the server's."""
        sent = {"model": self.model, **body}
        try:
            found = self._http.post(self.path + path, json=sent, headers=headers)
        except httpx.HTTPError as error:
            return Reply(0, text=type(error).__name__)
        return _reply(found)

    def stream(self, body: Body) -> Reply:
        return self.post({**body, "stream": True})

    def raw(self, content: bytes) -> Reply:
        """Send any bytes as the body."""
        headers = {"content-type": "application/json"}
        return _reply(self._http.post(self.path, content=content, headers=headers))

    def call(self, method: str, path: str, headers: dict[str, str] | None = None) -> Reply:
        """Send a request without a body to a path of the server."""
        try:
            return _reply(self._http.request(method, path, headers=headers))
        except httpx.HTTPError as error:
            return Reply(0, text=type(error).__name__)


def _reply(found: httpx.Response) -> Reply:
    reply = Reply(found.status_code, text=found.text)
    if found.headers.get("content-type", "").startswith("text/event-stream"):
        reply.events = list(_events(found.text))
        return reply
    try:
        body = found.json()
    except ValueError:
        return reply
    reply.body = body if isinstance(body, dict) else {"": body}
    return reply


def _events(text: str) -> Iterator[Event]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        name, data = None, ""
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data += line[5:].strip()
        if data and data != "[DONE]":
            yield Event(name, json.loads(data))
