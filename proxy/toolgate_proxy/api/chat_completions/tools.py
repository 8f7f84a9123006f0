"""`tools` of chat completions."""

from __future__ import annotations

from typing import Any

from toolgate_core.errors import UnsupportedParameter
from toolgate_core.tools import Tool

from ...request.chat_request import ToolChoice
from ...request_fields import DEFERRED, Fields, invalid_value
from ..reader import ApiReader
from ..shared.content_format import RESPONSE_FORMAT, STRUCTURED_OUTPUTS
from ..shared.tools import (
    OfferedTool,
    ReadTool,
    deferred_flag,
    function_name,
    own_form,
    read_tool_choice,
)
from .feature import ChatFeature

NAMED = ("function", "custom")
"""Types of objects in `tool_choice` that name a tool."""
FLAT = ((".function", ""),)
"""What errors call the members of a tool that has them beside `type`."""


class ChatReader(ApiReader[ChatFeature]):
    API = "chat completions"
    CLIENTS = ("function",)
    PREFIX = "chatcmpl-"
    CONSTRAINTS = ("tools", RESPONSE_FORMAT, STRUCTURED_OUTPUTS)

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """As for all APIs. The definition may be the only one of a feature's type."""
        self.features.of_type(definition.get("type") if isinstance(definition, dict) else None)
        return super().define(definition, path)

    def own(self, entry: Any, path: str, namespace: str = "") -> ReadTool:
        """Read a tool without `defer_loading`, which is a member of the tool or of the function."""
        if not isinstance(entry, dict):
            return ReadTool([OfferedTool(path, entry)])
        entry, is_flat = own_form(entry, self.API, path)
        words = FLAT if is_flat else None
        inner = entry.get("function")
        if DEFERRED not in entry and not (isinstance(inner, dict) and DEFERRED in inner):
            return ReadTool([OfferedTool(path, entry, words=words)])
        Fields(entry, path).flag(DEFERRED)
        kept = {name: value for name, value in entry.items() if name != DEFERRED}
        if isinstance(inner, dict) and DEFERRED in inner:
            Fields(inner, f"{path}.function").flag(DEFERRED)
            kept["function"] = {name: value for name, value in inner.items() if name != DEFERRED}
        return ReadTool([OfferedTool(path, kept, deferred_flag(entry) is True, words=words)])


def choice_of(choice: object) -> ToolChoice:
    """Return the choice between the tools. "any" is Mistral's word."""
    return read_tool_choice("required" if choice == "any" else choice, _chosen)


def _chosen(fields: Fields) -> str:
    """Return the name of a tool in `tool_choice`."""
    kind = fields.values.get("type")
    if kind not in (None, *NAMED):
        raise UnsupportedParameter(
            f"A 'tool_choice' of the type {kind!r} is not supported. Use the type \"function\", "
            '"custom" or "allowed_tools".',
            param=fields.place,
        )
    name = function_name(fields.values)
    if name is None:
        expected = f"an object with the tool's name in {kind or 'function'}.name"
        raise invalid_value(fields.place, expected, fields.values)
    return name
