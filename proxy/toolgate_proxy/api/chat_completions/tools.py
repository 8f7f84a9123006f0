"""`tools` of chat completions, and `functions`, which is their deprecated form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.tools import Tool
from toolgate_core.toolset import Toolset

from ...request_fields import DEFERRED, Fields, invalid_value, unknown_value
from ..reader import ApiReader
from ..shared.content_format import RESPONSE_FORMAT, STRUCTURED_OUTPUTS
from ..shared.tools import (
    MODES,
    Entry,
    Taken,
    deferred_flag,
    function_entry,
    function_name,
    own_form,
    read_tool_choice,
)
from .feature import ChatFeature

CHOICES = ("none", "auto")
NAMED = ("function", "custom")
"""Types of objects in `tool_choice` that name a tool."""


def is_legacy(values: Mapping[str, Any]) -> bool:
    """Return whether a request uses `functions`. Raise UnsupportedParameter if it mixes both
    forms."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if old not in values:
            continue
        for other in ("tools", "tool_choice"):
            if other in values:
                raise UnsupportedParameter(
                    f"{old!r} can't be combined with {other!r}. Use {new!r} instead of {old!r}.",
                    param=old,
                )
    return "functions" in values or "function_call" in values


class ChatReader(ApiReader[ChatFeature]):
    API = "chat completions"
    CLIENTS = ("function",)
    PREFIX = "chatcmpl-"
    CONSTRAINTS = ("tools", "functions", RESPONSE_FORMAT, STRUCTURED_OUTPUTS)

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """As for all APIs. The definition may be the only one of a feature's type."""
        self.used.of_type(definition.get("type") if isinstance(definition, dict) else None)
        return super().define(definition, path)

    def own(self, entry: Any, path: str, namespace: str = "") -> Taken:
        """Read a tool without `defer_loading`, which is a member of the tool or of the function."""
        if not isinstance(entry, dict):
            return Taken([Entry(path, entry)])
        entry, is_flat = own_form(entry, self.API, path)
        words = FunctionsReader.WORDS if is_flat else None
        inner = entry.get("function")
        if DEFERRED not in entry and not (isinstance(inner, dict) and DEFERRED in inner):
            return Taken([Entry(path, entry, words=words)])
        Fields(entry, path).flag(DEFERRED)
        kept = {name: value for name, value in entry.items() if name != DEFERRED}
        if isinstance(inner, dict) and DEFERRED in inner:
            Fields(inner, f"{path}.function").flag(DEFERRED)
            kept["function"] = {name: value for name, value in inner.items() if name != DEFERRED}
        return Taken([Entry(path, kept, deferred_flag(entry) is True, words=words)])


class FunctionsReader(ChatReader):
    """Reads the deprecated form."""

    WORDS = ((".function", ""),)

    def read_tools(self, tools: Sequence[object]) -> None:
        entries = [function_entry(f"functions[{at}]", each) for at, each in enumerate(tools)]
        self.used.asked.tools = Toolset(self.parsed(entries, self._reading.on_invalid))


def choice_of(values: Mapping[str, Any]) -> ToolChoice:
    """Return the choice between the tools."""
    if "function_call" not in values:
        choice = values.get("tool_choice")
        choice = "required" if choice == "any" else choice  # "any" is Mistral's
        return read_tool_choice(choice, _chosen)
    choice = values["function_call"]
    if isinstance(choice, str) and choice in CHOICES:
        return MODES[choice]
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(name, str):
        expected = '"none", "auto" or an object with a name'
        raise unknown_value("function_call", expected, choice, CHOICES)
    return NamedTool(name)


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
