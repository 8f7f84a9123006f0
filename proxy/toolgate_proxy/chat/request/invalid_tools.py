"""Tools that are left out of a request because their definitions are invalid
(`TOOLGATE_INVALID_TOOLS=omit`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core import errors
from toolgate_core.chat_request import AllowedTools, ChatRequest, NamedTool
from toolgate_core.errors import InvalidRequest
from toolgate_core.toolset import definitions
from toolgate_core.wire import TOOL_DEFINITIONS

from ...context import Notes

MAX_CAUSES = 10
"""Maximum number of tools that an error names."""


@dataclass
class InvalidTools:
    """The invalid tools of one request."""

    notes: Notes
    omit: bool
    """Whether they are left out instead of refused."""
    optional: Container[str] = ()
    """The names of tools that are left out in any case."""
    errors: dict[str, InvalidRequest] = field(default_factory=dict)
    """By the name of the tool, or by its place if it has no valid name of its own."""

    def leave_out(self, name: str, error: InvalidRequest) -> None:
        """Raises the error if it refuses the request: also that of a response format, which has no
        name."""
        if not name or not (self.omit or name in self.optional):
            raise error
        self.errors[name] = error
        self.notes.invalid_tools[name] = getattr(error, "pointer", "")


def without(request: ChatRequest, invalid: Mapping[str, InvalidRequest]) -> ChatRequest:
    """The request without the tools of these names. Raises InvalidRequest if `tool_choice` requires
    a call, and all tools that may be called were left out: invalid ones or hosted ones."""
    tools = tuple(tool for tool in request.tools if tool.name not in invalid)
    reasons = {name: error.message for name, error in invalid.items()}
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name in invalid:
        raise invalid[choice.name]
    if isinstance(choice, AllowedTools):
        names = tuple(name for name in choice.names if name not in invalid)
        if not names:
            raise _none_left((), {name: reasons[name] for name in choice.names}, invalid)
        choice = replace(choice, names=names)
    reasons = {**request.invalid_tools, **reasons}
    if choice == "required" and not tools and (request.omitted_tools or reasons):
        raise _none_left(request.omitted_tools, reasons, invalid)
    if not invalid:
        return request
    listed = request.listed_tools
    return replace(
        request,
        tools=tools,
        listed_tools=listed and tuple(tool for tool in listed if tool.name not in invalid),
        messages=tuple(_without_definitions(message, invalid) for message in request.messages),
        tool_choice=choice,
        invalid_tools=reasons,
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


def _none_left(
    hosted: Sequence[str], reasons: Mapping[str, str], invalid: Mapping[str, InvalidRequest]
) -> InvalidRequest:
    """The error of one of the invalid tools, with the reasons of all; InvalidTools for hosted
    ones."""
    causes = [f"{kind!r} is a hosted tool, which this gateway does not have." for kind in hosted]
    causes += [f"{name!r} is invalid: {reason}" for name, reason in reasons.items()]
    more = f" And {len(causes) - MAX_CAUSES} more." if len(causes) > MAX_CAUSES else ""
    message = (
        "No tool that 'tool_choice' allows can be offered. Offer a valid function. "
        f"{' '.join(causes[:MAX_CAUSES])}{more}"
    )
    error = next((each for name, each in invalid.items() if name in reasons), None)
    if error is not None:
        return error.reworded(message, error.param)
    return errors.InvalidTools(message, param="tools")
