"""Generates the ids of the calls of one response."""

from __future__ import annotations

import secrets
import string

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.deltas import CallStart
from toolgate_core.dialects.dialect import Dialect

ALPHABET = string.ascii_letters + string.digits


class CallIds:
    def __init__(self, info: wire.Info, request: ChatRequest, dialect: Dialect) -> None:
        ids = dialect.calls.ids if dialect.calls else None
        # Those that each turn counts anew do not identify a call in the conversation.
        self._written = ids is not None and ids.kind != "turn"
        self._numbered = info.call_ids == "kimi_k2"
        # As in vLLM (renderers/chat_utils.py), numbering continues through a conversation.
        self._before = sum(len(message.get("tool_calls") or ()) for message in request.messages)

    def id_of(self, start: CallStart) -> str:
        if start.id is not None and self._written:
            return start.id
        if self._numbered:
            return f"functions.{start.name}:{self._before + start.index}"
        return "call_" + "".join(secrets.choice(ALPHABET) for _ in range(24))
