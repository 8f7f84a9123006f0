"""`tools` of the Responses API: functions, and hosted tools, which no model is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import Tool

from ...request_fields import Fields
from ..shared.tools import read_functions

FUNCTION_FIELDS = ("type", "name", "description", "parameters", "strict")
HOSTED = (
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "shell",
    "web_search",
    "web_search_preview",
)
"""Tools that OpenAI runs or defines. Clients such as Codex send some of them with each request."""
DATED = ("web_search_", "web_search_preview_", "computer_use_preview_")
"""Beginnings of types that end in a date."""


@dataclass(frozen=True)
class RequestedTools:
    functions: tuple[Tool, ...]
    paths: tuple[str, ...]
    """The path of each function in the request's body."""
    shown: tuple[dict[str, Any], ...]
    """The functions as the response repeats them."""
    omitted: tuple[str, ...]
    """Types of the hosted tools, each once."""


def read_tools(tools: Sequence[object], *, open_objects: bool, omit_hosted: bool) -> RequestedTools:
    """Raises InvalidTools and UnsupportedParameter, which name the entry. `omit_hosted`: leave
    hosted tools out instead of refusing them."""
    functions: list[dict[str, Any]] = []
    paths: list[str] = []
    omitted: list[str] = []
    for at, entry in enumerate(tools):
        path = f"tools[{at}]"
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        kind = entry.get("type")
        if kind == "function":
            functions.append(_function(entry, path))
            paths.append(path)
        elif isinstance(kind, str) and _is_hosted(kind):
            if not omit_hosted:
                raise UnsupportedParameter(
                    f"{path!r} is the hosted tool {kind!r}, which this gateway does not have. "
                    "Remove it, or offer a function.",
                    param=path,
                )
            omitted.append(kind)
        else:
            raise _unknown_type(kind, path)
    return RequestedTools(
        functions=_parsed(functions, paths, open_objects=open_objects),
        paths=tuple(paths),
        shown=tuple(_shown(function) for function in functions),
        omitted=tuple(dict.fromkeys(omitted)),
    )


def _is_hosted(kind: str) -> bool:
    return kind in HOSTED or kind.startswith(DATED)


def _unknown_type(kind: object, path: str) -> InvalidTools | UnsupportedParameter:
    path = f"{path}.type"
    if not isinstance(kind, str):
        return InvalidTools(f'{path!r} must be a string, for example "function".', param=path)
    if kind == "custom":
        return UnsupportedParameter(
            f"{path!r} is 'custom'. Custom tools are not supported. Offer a function whose "
            "argument is the text.",
            param=path,
        )
    return UnsupportedParameter(
        f'{path!r} is {kind!r}, which is not supported. Use the type "function".', param=path
    )


def _function(entry: dict[str, Any], path: str) -> dict[str, Any]:
    """The function without its type, in the order of the request, as templates show it."""
    for name, value in entry.items():
        if name not in FUNCTION_FIELDS and value not in (None, False):
            raise UnsupportedParameter(
                f"{f'{path}.{name}'!r} is not supported. A function has "
                f"{', '.join(FUNCTION_FIELDS[:-1])} and {FUNCTION_FIELDS[-1]}.",
                param=f"{path}.{name}",
            )
    Fields(entry, path).text("description")
    return {
        name: value
        for name, value in entry.items()
        if name in FUNCTION_FIELDS and name != "type" and value is not None
    }


def _shown(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description"),
        "parameters": function.get("parameters"),
        "strict": function.get("strict"),
    }


def _parsed(
    functions: list[dict[str, Any]], paths: list[str], *, open_objects: bool
) -> tuple[Tool, ...]:
    try:
        return read_functions(functions, param="tools", open_objects=open_objects)
    except InvalidTools as error:
        # Its path counts functions only; the request may have hosted tools before them.
        for at, path in enumerate(paths):
            place = f"tools[{at}]"
            if error.param == place or (error.param or "").startswith(f"{place}."):
                message = error.message.replace(place, path)
                param = (error.param or "").replace(place, path, 1)
                raise InvalidTools(message, param=param) from error
        raise
