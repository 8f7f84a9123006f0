"""`context_management`: edits that Anthropic's servers apply to long conversations.

Clients such as Claude Code send some with each request. The gateway applies none: the client's
messages are the prompt. The templates of most models leave out the thinking of earlier turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import Fields, invalid_value

WITHOUT_EFFECT = ("clear_thinking_", "clear_tool_uses_")
"""Beginnings of the types of edits that shorten a conversation. Without them it has more tokens."""
NONE_APPLIED: Mapping[str, Any] = {"applied_edits": []}


def check_edits(edits: Sequence[object]) -> None:
    """Raises InvalidRequest and UnsupportedParameter."""
    for at, edit in enumerate(edits):
        path = f"context_management.edits[{at}]"
        if not isinstance(edit, dict):
            raise invalid_value(path, "an object", edit)
        fields = Fields(edit, path)
        kind = fields.text("type")
        if kind is None:
            raise fields.wrong("type", "the type of an edit")
        if not kind.startswith(WITHOUT_EFFECT):
            raise UnsupportedParameter(
                f"{fields.path('type')!r} is {kind!r}, which is not supported. Shorten the "
                "messages in the client.",
                param=fields.path("type"),
            )
