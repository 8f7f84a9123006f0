"""The ids of calls, in the style that the model's template needs."""

from __future__ import annotations

import secrets
import string

from toolgate_core import wire
from toolgate_core.deltas import CallStart
from toolgate_core.plan import ChatRequest

ALPHABET = string.ascii_letters + string.digits


class CallIds:
    """Of one answer."""

    def __init__(self, info: wire.Info, request: ChatRequest) -> None:
        self._numbered = info.call_ids == "kimi_k2"
        # As vLLM does (renderers/chat_utils.py:2311): numbers go on through a conversation.
        self._before = sum(len(message.get("tool_calls") or ()) for message in request.messages)

    def of(self, start: CallStart) -> str:
        if self._numbered:
            return f"functions.{start.name}:{self._before + start.index}"
        return "call_" + "".join(secrets.choice(ALPHABET) for _ in range(24))
