"""The name under which the reasoning of a turn is kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

RANDOM_ID = re.compile(r"(?:call|toolu)_([A-Za-z0-9]{24})")
"""The gateway's own ids of calls, which are unique. The prefix is that of the API."""


def turn_name(model: str, before: Iterable[Mapping[str, Any]], call_id: str, name: str) -> str:
    """Identifies a turn by its first call. `before`: the messages before the turn. `name`: the
    tool.

    Families with counted ids use the same ids in all conversations. There, the texts of the
    messages before the turn are part of the name: a conversation never gets the reasoning of
    another one.
    """
    if (found := RANDOM_ID.fullmatch(call_id)) is not None:
        return json.dumps([model, found[1]])
    digest = hashlib.sha256()
    for message in before:
        said = [message.get("role"), message.get("content"), _calls(message)]
        digest.update(json.dumps(said, sort_keys=True, default=str).encode())
    return json.dumps([model, call_id, name, digest.hexdigest()])


def _calls(message: Mapping[str, Any]) -> list[Any]:
    return [call.get("function") for call in message.get("tool_calls") or ()]
