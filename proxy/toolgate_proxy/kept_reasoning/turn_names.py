"""The name under which the reasoning of a turn is kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

RANDOM_ID = re.compile(r"(?:call|toolu)_([A-Za-z0-9]{24})")
"""The gateway's own ids of calls, which are unique. The prefix is that of the API."""


class TurnNames:
    """Names of the turns of one conversation, asked for in the order of the turns.

    Families with counted ids use the same ids in all conversations. There, the texts of the
    messages before the turn are part of the name: a conversation never gets the reasoning of
    another one.
    """

    def __init__(self, model: str, messages: Sequence[Mapping[str, Any]]) -> None:
        self._model = model
        self._messages = messages
        self._before = hashlib.sha256()
        self._read = 0

    def name(self, at: int, call_id: str, tool: str) -> str:
        """The name of the turn at position `at` of the messages, by its first call."""
        if (found := RANDOM_ID.fullmatch(call_id)) is not None:
            return json.dumps([self._model, found[1]])
        for message in self._messages[self._read : at]:
            said = [message.get("role"), message.get("content"), _calls(message)]
            self._before.update(json.dumps(said, sort_keys=True, default=str).encode())
        self._read = at
        return json.dumps([self._model, call_id, tool, self._before.hexdigest()])


def _calls(message: Mapping[str, Any]) -> list[Any]:
    return [call.get("function") for call in message.get("tool_calls") or ()]
