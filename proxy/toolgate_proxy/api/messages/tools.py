"""`tools` and `tool_choice` of the Messages API. Tools have a schema of the client, or a known one
of Anthropic (client_tools)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolgate_core.chat_request import NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...request_fields import Fields, unknown_value
from ..shared.hosted_tools import HostedTools, at_own_places, on_invalid_at
from ..shared.tools import WRITTEN, other_form, read_functions
from .client_tools.table import client_tool, known_fields, versions
from .conversation.content import check_fields

FIELDS = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "eager_input_streaming",
    "input_examples",
)
IGNORED_VALUES: dict[str, tuple[object, ...]] = {
    "allowed_callers": (["direct"],),
    "defer_loading": (False,),
}
"""Further fields, by the values that have no effect."""
TOOLSETS = ("computer_toolset_", "browser_toolset_")
"""Beginnings of the types of sets of tools that Anthropic defines and clients run."""
EAGER_BETA = "fine-grained-tool-streaming-2025-05-14"


@dataclass(frozen=True)
class RequestedTools:
    tools: tuple[Tool, ...]
    eager: frozenset[str]
    """Names of the tools whose input is streamed before it is complete."""


def read_tools(
    tools: Sequence[object],
    hosted: HostedTools,
    *,
    open_objects: bool,
    betas: str,
    on_invalid: OnInvalid = refuse,
) -> RequestedTools:
    """`betas`: the header `anthropic-beta`. `on_invalid` gets the errors of names and schemas.
    Raises InvalidTools and UnsupportedParameter for others."""
    functions, places, eager = [], [], set()
    for at, entry in hosted.others(tools):
        path = f"tools[{at}]"
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        functions.append(_function(entry, path))
        places.append(at)
        if _is_eager(Fields(entry, path), betas):
            eager.add(functions[-1]["name"])
    own = on_invalid_at(places, on_invalid)
    parsed = _parsed(functions, open_objects=open_objects, on_invalid=own)
    return RequestedTools(at_own_places(parsed, places), frozenset(eager))


def _is_eager(fields: Fields, betas: str) -> bool:
    given = fields.flag("eager_input_streaming")
    return EAGER_BETA in betas if given is None else given


def _function(entry: dict[str, Any], path: str) -> dict[str, Any]:
    """The function in OpenAI's form, as templates show it."""
    if (other := other_form(entry, "the Messages API")) is not None:
        raise InvalidTools(f"{path!r} is no tool of the Messages API. {other}", param=path)
    fields = Fields(entry, path)
    kind = fields.text("type")
    known = known_fields(kind) or FIELDS
    if kind is not None and kind != "custom" and known is FIELDS:
        raise _unknown_type(kind, fields.path("type"))
    for field, value in entry.items():
        if field not in known and value is not None and value not in IGNORED_VALUES.get(field, ()):
            raise _unknown_field(field, fields.path(field), known)
    function = client_tool(fields) or _own_function(fields)
    if entry.get("strict") is not None:
        function["strict"] = entry["strict"]
    return function


def _own_function(fields: Fields) -> dict[str, Any]:
    """The function of a tool that the client defines."""
    name = fields.text("name")
    if not name:
        raise InvalidTools(f"{fields.path('name')!r} is required.", param=fields.path("name"))
    schema = fields.values.get("input_schema")
    if not isinstance(schema, dict):
        where = fields.path("input_schema")
        problem = "is required" if schema is None else "must be an object"
        raise InvalidTools(
            f'{where!r} {problem}: a JSON Schema with the type "object".', param=where
        )
    function: dict[str, Any] = {"name": name}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    function["parameters"] = schema
    return function


def _unknown_type(kind: str, path: str) -> UnsupportedParameter:
    if known := versions(kind):
        return UnsupportedParameter(
            f"{path!r} is {kind!r}, a version that is not supported. Use {' or '.join(known)}.",
            param=path,
        )
    if kind.startswith(TOOLSETS):
        return UnsupportedParameter(
            f"{path!r} is {kind!r}, a set of tools whose schemas only Anthropic's models know. "
            "Offer tools with a name, a description and an `input_schema` instead.",
            param=path,
        )
    return UnsupportedParameter(
        f"{path!r} is {kind!r}, which is not supported. Write the tool as "
        f"{WRITTEN['the Messages API']}.",
        param=path,
    )


def _unknown_field(name: str, path: str, known: Sequence[str]) -> UnsupportedParameter:
    reason = {
        "defer_loading": "Tools can't be loaded later. Offer the tool without `defer_loading`, or "
        "leave it out.",
        "allowed_callers": "Only the model itself calls tools. Remove it.",
    }.get(name, f"A tool of this type has {', '.join(known[:-1])} and {known[-1]}.")
    return UnsupportedParameter(f"{path!r} is not supported. {reason}", param=path)


def _parsed(
    functions: list[dict[str, Any]], *, open_objects: bool, on_invalid: OnInvalid
) -> tuple[Tool, ...]:
    def on_invalid_tool(name: str, error: InvalidRequest) -> None:
        on_invalid(name, error.reworded(_renamed(error.message), _renamed(error.param or "tools")))

    read = read_functions(
        functions, param="tools", open_objects=open_objects, on_invalid=on_invalid_tool
    )
    return tuple(replace(tool, param=_renamed(tool.param)) for tool in read)


def _renamed(text: str) -> str:
    return text.replace("].parameters", "].input_schema")


CHOICE_TYPES = ("auto", "any", "tool", "none")
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
    if kind not in CHOICE_TYPES:
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
    return RequestedChoice("required" if kind == "any" else kind, parallel)  # type: ignore[arg-type]
