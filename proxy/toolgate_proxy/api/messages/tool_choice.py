"""`tool_choice` of the Messages API."""

from __future__ import annotations

from dataclasses import dataclass

from toolgate_core.chat_request import NamedTool, ToolChoice

from ...request_fields import Fields, unknown_value
from ..shared.tools import Mode
from .conversation.content import check_fields

MODES: dict[str, Mode] = {"auto": "auto", "any": "required", "none": "none"}
"""By the type of a choice that names no tool."""
CHOICE_TYPES = (*MODES, "tool")
CHOICE_KINDS = '"auto", "any" (a call is required), "tool" or "none"'
CHOICE = f"an object with the type {CHOICE_KINDS}"


@dataclass(frozen=True)
class RequestedChoice:
    choice: ToolChoice
    parallel: bool
    """Whether the response may have several calls."""


def read_tool_choice(given: object) -> RequestedChoice:
    """Raises InvalidRequest and UnsupportedParameter."""
    if given is None:
        return RequestedChoice("auto", parallel=True)
    if not isinstance(given, dict):
        written = '{"type": "{}"}'
        raise unknown_value("tool_choice", CHOICE, given, CHOICE_TYPES, suggestion=written)
    fields = Fields(given, "tool_choice")
    kind = fields.text("type")
    if kind is None or kind not in CHOICE_TYPES:
        raise unknown_value(fields.path("type"), CHOICE_KINDS, kind, CHOICE_TYPES)
    check_fields(fields, ("type", "name", "disable_parallel_tool_use"))
    parallel = not fields.flag("disable_parallel_tool_use")
    if kind == "tool":
        name = fields.text("name")
        if not name:
            raise fields.wrong("name", "the name of a tool")
        return RequestedChoice(NamedTool(name), parallel)
    if given.get("name") is not None:
        raise fields.wrong("name", 'left out, except with the type "tool"')
    return RequestedChoice(MODES[kind], parallel)
