"""Which tools a request offers and how far they are to be called: `tools` and `tool_choice`, or the
deprecated `functions` and `function_call`, which are the same in an older form."""

from __future__ import annotations

from typing import Any

from toolgate_core.errors import InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.plan import AllowedTools, NamedTool, Tool, ToolChoice, parse_tools

from ...request_fields import Fields


def is_legacy(fields: Fields) -> bool:
    """Asked by `functions`. Raises UnsupportedParameter where both forms are mixed."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        for other in ("tools", "tool_choice"):
            if old in fields.values and other in fields.values:
                raise UnsupportedParameter(
                    f"{old!r} can't be combined with {other!r}; use {new!r}.", param=old
                )
    return "functions" in fields.values or "function_call" in fields.values


def tools(fields: Fields, *, open_objects: bool = False) -> tuple[Tool, ...]:
    functions = fields.items("functions")
    try:
        if functions is None:
            return parse_tools(fields.items("tools") or [], open_objects=open_objects)
        return _functions(functions, open_objects)
    except RecursionError as error:
        name = "tools" if functions is None else "functions"
        raise InvalidTools(f"{name!r} is nested too deeply.", param=name) from error


def tool_choice(fields: Fields) -> ToolChoice:
    if "function_call" in fields.values:
        return _function_call(fields)
    choice = fields.values.get("tool_choice")
    if choice is None:
        return "auto"  # without tools, the plan makes "none" of it
    if choice in ("none", "auto", "required"):
        return choice  # type: ignore[no-any-return]
    if not isinstance(choice, dict):
        raise fields.wrong("tool_choice", '"none", "auto", "required" or an object naming a tool')
    kind = choice.get("type")
    if kind == "allowed_tools":
        return _allowed_tools(Fields(choice, "tool_choice"))
    if kind != "function":
        raise UnsupportedParameter(
            f"A tool_choice of type {kind!r} is not supported.", param="tool_choice"
        )
    name = _function_name(choice)
    if name is None:
        raise fields.wrong("tool_choice", "an object with the tool's name at function.name")
    return NamedTool(name)


def _allowed_tools(choice: Fields) -> AllowedTools:
    """{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": [{"type": "function", …}]}},
    or the same without the inner object, as the Responses API writes it."""
    inner = choice.mapping("allowed_tools")
    allowed = choice if inner is None else Fields(inner, "tool_choice.allowed_tools")
    mode = allowed.values.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise allowed.wrong("mode", '"auto" or "required"')
    named = allowed.items("tools") or []
    names = [_function_name(entry) for entry in named]
    if not names:
        raise UnknownTool("allowed_tools names no tool.", param=allowed.path("tools"))
    if any(name is None for name in names):
        raise allowed.wrong("tools", "an array of objects that name one of `tools` each")
    return AllowedTools(mode, tuple(name for name in names if name is not None))


def _function_name(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    function = entry.get("function", entry)
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _functions(functions: list[Any], open_objects: bool) -> tuple[Tool, ...]:
    """Raises InvalidTools, which names the entry of `functions`."""
    wrapped = [{"type": "function", "function": function} for function in functions]
    try:
        return parse_tools(wrapped, param="functions", open_objects=open_objects)
    except InvalidTools as error:
        param = (error.param or "functions").replace("].function", "]", 1)
        message = error.message.replace("].function", "]", 1)
        raise InvalidTools(message, param=param) from error


def _function_call(fields: Fields) -> ToolChoice:
    choice = fields.values["function_call"]
    if choice in ("none", "auto"):
        return choice  # type: ignore[no-any-return]
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(name, str):
        raise fields.wrong("function_call", '"none", "auto" or an object with a name')
    return NamedTool(name)
