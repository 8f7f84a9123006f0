"""Conversations whose last turn is a call of a tool that reads a file."""

from __future__ import annotations

from typing import Any

CALLED: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "read"}}]},
    ],
    "responses": [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
    ],
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant",
         "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]},
    ],
}  # fmt: skip
"""By API."""
