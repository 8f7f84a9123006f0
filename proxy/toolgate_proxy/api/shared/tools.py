"""Tools and tool choices, in the forms that several APIs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, parse_tools, refuse

from ...request_fields import Fields, invalid_value, unknown_value

Mode = Literal["none", "auto", "required"]
MODES: dict[str, Mode] = {"none": "none", "auto": "auto", "required": "required"}
"""By the string that a client sends."""
ALLOWED_MODES = ("auto", "required")
"""Modes of a choice among some of the tools."""
TOOL_CHOICES = '"none", "auto", "required" or an object that names a tool'


def read_tools(
    tools: Sequence[object],
    *,
    param: str = "tools",
    open_objects: bool = False,
    on_invalid: OnInvalid = refuse,
) -> tuple[Tool, ...]:
    """Tools as `{"type": "function", "function": {…}}` and `{"type": "custom", "custom": {…}}`.
    `on_invalid` gets InvalidTools, SchemaNotEnforceable and UnsupportedParameter."""
    try:
        return parse_tools(tools, param=param, open_objects=open_objects, on_invalid=on_invalid)
    except RecursionError as error:
        raise InvalidTools(
            f"{param!r} is nested too deeply. Use a flatter JSON Schema.", param=param
        ) from error


def read_functions(
    functions: Sequence[object],
    *,
    param: str,
    open_objects: bool = False,
    on_invalid: OnInvalid = refuse,
) -> tuple[Tool, ...]:
    """Functions without the object around them. The `param` of tools and errors is below the entry
    of the array `param`."""

    def flat(path: str) -> str:
        return path.replace("].function", "]", 1)

    def on_invalid_function(name: str, error: InvalidRequest) -> None:
        on_invalid(name, error.reworded(flat(error.message), flat(error.param or param)))

    wrapped = [{"type": "function", "function": function} for function in functions]
    tools = read_tools(
        wrapped, param=param, open_objects=open_objects, on_invalid=on_invalid_function
    )
    return tuple(replace(tool, param=flat(tool.param)) for tool in tools)


def read_mode(choice: object) -> Mode | dict[str, Any]:
    """Return the mode that a `tool_choice` of OpenAI's APIs is, or the object that names tools."""
    if choice is None:
        return "auto"  # the plan changes it to "none" if there are no tools
    # Some clients write the mode as the type of an object.
    is_mode = isinstance(choice, dict) and not function_name(choice)
    mode = choice.get("type") if is_mode else choice  # type: ignore[attr-defined]
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    if not isinstance(choice, dict):
        raise unknown_value("tool_choice", TOOL_CHOICES, choice, MODES)
    return choice


def read_tool_choice(choice: object) -> ToolChoice:
    """`tool_choice` of OpenAI's APIs. The name of a tool is at `function.name` in chat completions,
    and at `name` in the Responses API."""
    found = read_mode(choice)
    if isinstance(found, str):
        return found
    kind = found.get("type")
    if kind == "allowed_tools":
        return _allowed_tools(Fields(found, "tool_choice"))
    if kind not in ("function", "custom"):
        raise UnsupportedParameter(
            f"A 'tool_choice' of the type {kind!r} is not supported. Use the type \"function\", "
            '"custom" or "allowed_tools".',
            param="tool_choice",
        )
    name = function_name(found)
    if name is None:
        raise invalid_value("tool_choice", f"an object with the tool's name in {kind}.name", found)
    return NamedTool(name)


def function_name(entry: object) -> str | None:
    """The name in `{"function": {"name": …}}`, `{"custom": {"name": …}}` or `{"name": …}`."""
    function = function_of(entry) if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def function_of(entry: Mapping[str, Any]) -> Any:
    """The function or custom tool of an entry, which may be without an object around it."""
    return entry.get("custom" if entry.get("type") == "custom" else "function", entry)


def _allowed_tools(choice: Fields) -> AllowedTools:
    """`{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}`. In the Responses
    API mode and tools are beside the type."""
    inner = choice.mapping("allowed_tools")
    allowed = choice if inner is None else Fields(inner, "tool_choice.allowed_tools")
    mode = allowed.values.get("mode", "auto")
    if mode not in ALLOWED_MODES:
        raise unknown_value(allowed.path("mode"), '"auto" or "required"', mode, ALLOWED_MODES)
    names = [function_name(entry) for entry in allowed.items("tools") or []]
    if not names:
        path = allowed.path("tools")
        raise UnknownTool(
            f"{path!r} is empty. Name at least one of the request's tools.", param=path
        )
    if any(name is None for name in names):
        raise allowed.wrong("tools", "an array of objects with the name of a tool each")
    return AllowedTools(mode, tuple(name for name in names if name is not None))


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
