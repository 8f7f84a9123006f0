"""Chat completion requests, parsed."""

from __future__ import annotations

from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.chat_completions.request import parse_request

HELLO = [{"role": "user", "content": "Hello"}]


def admitted(stream: bool = False, **params: Any) -> ChatRequest:
    body = {"model": "tiny", "messages": HELLO, "stream": stream, **params}
    return parse_request(body, model="tiny")
