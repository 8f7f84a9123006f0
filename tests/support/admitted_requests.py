"""A request as the gateway admits it."""

from __future__ import annotations

from typing import Any

from toolgate_core.plan import ChatRequest
from toolgate_proxy.api.chat_completions.request import admit

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def admitted(stream: bool = False, **params: Any) -> ChatRequest:
    return admit("tiny", HELLO, params, stream=stream)
