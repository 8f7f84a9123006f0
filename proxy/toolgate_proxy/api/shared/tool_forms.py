"""The forms in which APIs write a function, to name the one that a client has used by mistake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Form = Literal["chat completions", "the Responses API", "the Messages API", "MCP"]
WRITTEN: dict[Form, str] = {
    "chat completions": '{"type": "function", "function": {"name", "description", "parameters"}}',
    "the Responses API": '{"type": "function", "name", "description", "parameters"}',
    "the Messages API": '{"name", "description", "input_schema"}',
}
"""By API of this gateway: how a function is written."""


def form_of(tool: Mapping[str, object]) -> Form | None:
    """The API whose form a tool has; None for a tool of no known form."""
    if isinstance(tool.get("function"), dict):
        return "chat completions"
    if "name" not in tool:
        return None
    if "input_schema" in tool:
        return "the Messages API"
    if "inputSchema" in tool:
        return "MCP"
    return "the Responses API" if "parameters" in tool else None


def other_form(tool: Mapping[str, object], expected: Form) -> str | None:
    """Sentences for an error, if a tool has the form of another API than `expected`."""
    found = form_of(tool)
    if found is None or found == expected:
        return None
    return f"It has the form of {found}. Write it as {WRITTEN[expected]}."
