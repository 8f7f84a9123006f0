"""The API surface for Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from ...limits.reservation import RateLimitHeaders
from ..shared.output import typed_events
from ..surface import Counting, Stateless
from .parameters import BY_NAME, with_defaults
from .request import read
from .response import error_body

OWN = ("thinking", "redacted_thinking")
"""Types of the blocks that this gateway has signed."""
COMPACTION = "compaction"


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body without the thinking of earlier turns, whose signatures other providers refuse.
    They also refuse a turn without thinking while `thinking` is on, so it is left out then. A
    summary becomes text."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return dict(body)
    kept = [_without_thinking(message) for message in messages]
    if kept == messages:
        return dict(body)
    return {**{name: value for name, value in body.items() if name != "thinking"}, "messages": kept}


def _without_thinking(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    left = [
        _with_text(block)
        for block in content
        if not (isinstance(block, dict) and block.get("type") in OWN)
    ]
    return {**message, "content": left}


def _with_text(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != COMPACTION:
        return block
    return {"type": "text", "text": block.get("content") or ""}


PATH = re.compile(r"/v1/messages")
"""The path that LiteLLM accepts."""
MODELS = re.compile(r"(?:/v1)?/models(?:/.+)?", re.DOTALL)
VERSION_HEADER = "anthropic-version"
"""A header that only clients of Anthropic's API send. Some paths are in both APIs."""


def _counted(tokens: int, cleared: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"input_tokens": tokens}
    if cleared is not None:
        body["context_management"] = {"original_input_tokens": tokens + cleared}
    return body


COUNTING = Counting(
    path=re.compile(r"/v1/messages/count_tokens"),
    # `max_tokens` is required for a message, and no parameter here.
    prepared=lambda body: {**body, "max_tokens": body.get("max_tokens") or 1},
    body=_counted,
)


class Messages(Stateless):
    name = "messages"
    path = PATH
    call_type = "anthropic_messages"
    parameters = frozenset(BY_NAME)
    keep_alive = typed_events([{"type": "ping"}])
    rate_limits: RateLimitHeaders = "anthropic"
    request_id_header: str | None = "request-id"
    counting: Counting | None = COUNTING
    read = staticmethod(read)
    portable = staticmethod(portable)
    with_defaults = staticmethod(with_defaults)
    error = staticmethod(error_body)

    def owns(self, path: str, headers: Container[str]) -> bool:
        if MODELS.fullmatch(path) is not None:
            return VERSION_HEADER in headers
        return path == "/v1/messages" or path.startswith("/v1/messages/")

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return typed_events([shown])
