"""A request as other gateways and providers can read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
