"""Tools that are left out of a request because their definitions are invalid
(`TOOLGATE_INVALID_TOOLS=omit`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from toolgate_core.chat_request import AllowedTools, ChatRequest, NamedTool
from toolgate_core.errors import InvalidRequest

from ...context import RequestContext


@dataclass
class InvalidTools:
    """The invalid tools of one request."""

    context: RequestContext
    omit: bool
    """Whether they are left out instead of refused."""
    errors: dict[str, InvalidRequest] = field(default_factory=dict)
    """By the name of the tool, or by its place if it has no valid name of its own."""

    def leave_out(self, name: str, error: InvalidRequest) -> None:
        """Raises the error if it refuses the request: also that of a response format, which has no
        name."""
        if not self.omit or not name:
            raise error
        self.errors[name] = error
        self.context.invalid_tools[name] = getattr(error, "pointer", "")


def without(request: ChatRequest, invalid: Mapping[str, InvalidRequest]) -> ChatRequest:
    """The request without the tools of these names. Raises the error of one of them if no valid
    tool is left that `tool_choice` requires to be called."""
    if not invalid:
        return request
    tools = tuple(tool for tool in request.tools if tool.name not in invalid)
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name in invalid:
        raise invalid[choice.name]
    if isinstance(choice, AllowedTools):
        names = tuple(name for name in choice.names if name not in invalid)
        if not names:
            raise invalid[choice.names[0]]
        choice = replace(choice, names=names)
    if choice == "required" and not tools:
        raise next(iter(invalid.values()))
    return replace(request, tools=tools, tool_choice=choice)
