"""Tools that are left out of a request because their definitions are invalid
(`TOOLGATE_INVALID_TOOLS=omit`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core.errors import InvalidRequest, InvalidTools
from toolgate_core.wire import TOOL_DEFINITIONS

from ..context import Notes
from ..request.chat_request import AllowedTools, ChatRequest, NamedTool
from ..request.toolset import definitions

MAX_CAUSES = 10
"""Maximum number of tools that an error names."""


@dataclass
class LeftOut:
    """The invalid tools of one request."""

    notes: Notes
    omit: bool
    """Whether they are left out instead of refused."""
    optional: Container[str] = ()
    """The names of tools that are left out in any case."""
    errors: dict[str, InvalidRequest] = field(default_factory=dict)
    """By the name of the tool, or by its place if it has no valid name of its own."""

    def leave_out(self, name: str, error: InvalidRequest) -> None:
        """Raise the error if it refuses the request: also that of a response format, which has no
        name."""
        if not name or not (self.omit or name in self.optional):
            raise error
        self.errors[name] = self.notes.invalid_tools[name] = error.with_traceback(None)


def without(
    request: ChatRequest, invalid: Mapping[str, InvalidRequest], notes: Notes
) -> ChatRequest:
    """Return the request without the tools of these names. `notes`: with all tools that were left
    out. Raise InvalidRequest if `tool_choice` requires a call, and all tools that may be called
    were left out: invalid ones or hosted ones."""
    tools = tuple(tool for tool in request.tools if tool.name not in invalid)
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name in invalid:
        raise invalid[choice.name]
    if isinstance(choice, AllowedTools):
        names = tuple(name for name in choice.names if name not in invalid)
        if not names:
            raise _none_left((), {name: invalid[name] for name in choice.names})
        choice = replace(choice, names=names)
    if choice == "required" and not tools and (notes.omitted_tools or notes.invalid_tools):
        raise _none_left(notes.omitted_tools, notes.invalid_tools)
    if not invalid:
        return request
    listed = request.listed_tools
    return replace(
        request,
        tools=tools,
        listed_tools=listed and tuple(tool for tool in listed if tool.name not in invalid),
        messages=tuple(_without_definitions(message, invalid) for message in request.messages),
        tool_choice=choice,
    )


def _without_definitions(message: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    """Return the message without the definitions of these tools."""
    if not definitions(message):
        return message
    return message | {"content": [_without_names(part, names) for part in message["content"]]}


def _without_names(part: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    if part["type"] != TOOL_DEFINITIONS:
        return part
    kept = [tool for tool in part["tools"] if tool["function"]["name"] not in names]
    return part | {"tools": kept}


def _none_left(hosted: Sequence[str], invalid: Mapping[str, InvalidRequest]) -> InvalidRequest:
    """Return the error of one of the invalid tools, with the reasons of all; InvalidTools for
    hosted ones."""
    causes = [f"{kind!r} is a hosted tool, which this gateway does not have." for kind in hosted]
    causes += [f"{name!r} is invalid: {error.message}" for name, error in invalid.items()]
    more = f" And {len(causes) - MAX_CAUSES} more." if len(causes) > MAX_CAUSES else ""
    message = (
        "No tool that 'tool_choice' allows can be offered. Offer a valid function. "
        f"{' '.join(causes[:MAX_CAUSES])}{more}"
    )
    for error in invalid.values():
        return error.reworded(message, error.param)
    return InvalidTools(message, param="tools")
