"""A request of a model of ours that falls back to a model which LiteLLM's handler serves.

LiteLLM gets it as a new request with that model: its authentication, checks, hooks and log events
run for it. An error that it returns before the response begins is raised, so that the next
fallback can be tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.types import Message, Scope

from ..api.shared.options import LITELLM
from ..context import RequestContext
from ..keys.header import Header
from ..litellm_host.errors import HostRefused
from .paths import MATCH
from .traffic.recording import noting_events
from .transport.body import RequestBody
from .transport.connection import Disconnect, Reply

FALLBACKS = "fallbacks"
NO_FURTHER = {"disable_fallbacks": True}
"""Added to the body, so that LiteLLM does not try further fallbacks: the pipeline tries them."""
LITELLMS = frozenset(row.name for row in LITELLM)
"""Parameters that LiteLLM may get from requests for our models."""
REPLACED = (b"content-length", b"content-encoding", b"x-litellm-call-id")
PARSED = "parsed_body"
"""Key in the ASGI scope of the body that LiteLLM has read."""


def scope_of(scope: Scope, context: RequestContext, model: str) -> Scope:
    """Return the scope of the request to the other model, with the same id."""
    headers: list[Header] = [each for each in scope["headers"] if each[0] not in REPLACED]
    headers.append((b"x-litellm-call-id", (context.call_id or "").encode()))
    made = {name: value for name, value in scope.items() if name != PARSED}
    path = _path(scope, model)
    return {**made, "headers": headers, "path": path, "raw_path": quote(path).encode()}


def checked_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that other providers' models may have."""
    return {name: value for name, value in values.items() if name not in LITELLMS}


def body_of(values: Mapping[str, Any]) -> RequestBody:
    kept = {name: value for name, value in values.items() if name != FALLBACKS}
    return RequestBody.of_values({**kept, **NO_FURTHER}, 0)


class FallbackReply:
    """Sends LiteLLM's response, unless it is an error before its beginning."""

    def __init__(self, reply: Reply, context: RequestContext, disconnect: Disconnect) -> None:
        self.send = noting_events(self._send, context)
        self._reply = reply
        self._disconnect = disconnect
        self._status = 200
        self._error = b""

    async def receive(self) -> Message:
        """Wait for ever: if the client disconnects, the request is cancelled."""
        await asyncio.Event().wait()
        raise AssertionError

    def require_begun(self) -> None:
        """Raise HostRefused if LiteLLM returned an error."""
        if self._status < 400:
            return
        try:
            message = str(orjson.loads(self._error)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = "LiteLLM returned an error."
        raise HostRefused(message, self._status)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        if self._status >= 400:
            self._error += message.get("body", b"")
            return
        if message["type"] == "http.response.body":
            self._reply.has_output = True
            if not message.get("more_body", False):
                self._disconnect.ignore()
        await self._reply.forward(message)


def _path(scope: Scope, model: str) -> str:
    """Return the path of the request, with the other model if it names one."""
    path, found = str(scope["path"]), scope.get(MATCH)
    if found is None or not found.groupdict().get("model"):
        return path
    begin, end = found.span("model")
    return path[:begin] + model + path[end:]
