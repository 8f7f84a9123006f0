"""`tools` and `tool_choice` of the Responses API. Tools are functions, custom tools, namespaces of
both, built-in tools that clients run, and hosted tools, which no model is offered."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.errors import InvalidRequest, InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.pointer import member_path
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...request_fields import Fields, invalid_value, unknown_value
from ..shared.hosted_tools import HostedTools
from ..shared.tools import MODES, TOOL_CHOICES, other_form
from ..shared.tools import read_tools as read_nested_tools
from .builtin_tools.table import BUILTIN_TOOLS, BY_TYPE, builtin_tool, function_of

FIELDS: dict[str, tuple[str, ...]] = {
    "function": ("type", "name", "description", "parameters", "strict"),
    "custom": ("type", "name", "description", "format"),
    "namespace": ("type", "name", "description", "tools"),
    **{tool.type: ("type", *tool.fields) for tool in BUILTIN_TOOLS},
}
"""By type of tool: its fields."""
IGNORED_FIELDS = ("defer_loading", "output_schema", "allowed_callers")
"""Deferred tools are offered at once, because there is no tool search."""


@dataclass(frozen=True)
class RequestedTools:
    functions: tuple[Tool, ...]
    """The functions, custom tools and built-in tools."""
    builtins: frozenset[str]
    """The names of the built-in tools."""
    shown: tuple[dict[str, Any], ...]
    """The tools as the response repeats them."""


def full_name(namespace: str, name: str) -> str:
    """The name of a tool of a namespace that the model sees."""
    return f"{namespace}.{name}"


def read_tools(
    tools: Sequence[object],
    hosted: HostedTools,
    *,
    open_objects: bool,
    on_invalid: OnInvalid = refuse,
) -> RequestedTools:
    """`on_invalid` gets the errors of names and schemas. Raises InvalidTools and
    UnsupportedParameter for others. All errors name the entry."""
    reader = _Reader(hosted)
    shown = [reader.read(entry, f"tools[{at}]") for at, entry in enumerate(tools)]
    functions = reader.parsed(open_objects=open_objects, on_invalid=on_invalid)
    return RequestedTools(
        functions=functions,
        builtins=frozenset(tool.name for tool in functions if tool.param in reader.builtins),
        shown=tuple(tool for tool in shown if tool is not None),
    )


def offered(shown: Iterable[dict[str, Any]], names: Container[str]) -> list[dict[str, Any]]:
    """The tools of a response, without invalid ones that the model is not offered."""
    kept = []
    for entry in shown:
        if entry["type"] == "namespace":
            namespace = entry["name"]
            inner = [t for t in entry["tools"] if full_name(namespace, t["name"]) in names]
            kept += [{**entry, "tools": inner}] if inner else []
        elif entry.get("name", entry["type"]) in names:
            kept.append(entry)
    return kept


@dataclass
class _Reader:
    hosted: HostedTools
    nested: list[dict[str, Any]] = field(default_factory=list)
    """The functions and custom tools in the form of chat completions."""
    paths: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    """The namespace of each of them, or an empty text."""
    builtins: set[str] = field(default_factory=set)
    """The paths of the schemas of built-in tools."""

    def read(self, entry: object, path: str, namespace: str = "") -> dict[str, Any] | None:
        """The tool as the response repeats it; None if it is left out."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        kind = entry.get("type")
        if (other := other_form(entry, "the Responses API")) is not None:
            raise InvalidTools(f"{path!r} is no tool of the Responses API. {other}", param=path)
        if kind in ("function", "custom"):
            self._add(kind, entry, path, namespace)
            return _shown(kind, entry)
        if kind == "namespace" and not namespace:
            return self._read_namespace(entry, path)
        if (builtin := builtin_tool(entry)) is not None and not namespace:
            _check_fields(builtin.type, entry, path)
            self.builtins.add(f"{path}.parameters")
            self._append(function_of(builtin, Fields(entry, path)), path)
            return _shown(builtin.type, entry)
        if self.hosted.leaves_out(entry, path):
            return None
        raise _unknown_type(kind, path)

    def _read_namespace(self, entry: dict[str, Any], path: str) -> dict[str, Any]:
        _check_fields("namespace", entry, path)
        fields = Fields(entry, path)
        name, description = fields.text("name"), fields.text("description")
        if not name:
            raise InvalidTools(f"{path}.name must be a non-empty string.", param=f"{path}.name")
        entries = fields.items("tools")
        if not entries:
            raise InvalidTools(
                f"{path}.tools must be a non-empty array of functions and custom tools.",
                param=f"{path}.tools",
            )
        tools = [
            self.read(each, f"{path}.tools[{at}]", namespace=name)
            for at, each in enumerate(entries)
        ]
        shown = [tool for tool in tools if tool is not None]
        # OpenAI's model of a response requires the description.
        described = description or ""
        return {"type": "namespace", "name": name, "description": described, "tools": shown}

    def _add(self, kind: str, entry: dict[str, Any], path: str, namespace: str) -> None:
        _check_fields(kind, entry, path)
        Fields(entry, path).text("description")
        # In the order of the request, as templates show it.
        kept = {
            name: value
            for name, value in entry.items()
            if name in FIELDS[kind] and name != "type" and value is not None
        }
        if namespace and isinstance(kept.get("name"), str):
            kept["name"] = full_name(namespace, kept["name"])
        if isinstance(form := kept.get("format"), dict) and form.get("type") == "grammar":
            inner = {key: value for key, value in form.items() if key != "type"}
            kept["format"] = {"type": "grammar", "grammar": inner}
        self._append({"type": kind, kind: kept}, path, namespace)

    def _append(self, tool: dict[str, Any], path: str, namespace: str = "") -> None:
        self.nested.append(tool)
        self.paths.append(path)
        self.namespaces.append(namespace)

    def parsed(self, *, open_objects: bool, on_invalid: OnInvalid) -> tuple[Tool, ...]:
        own_places = {f"tools[{at}]": path for at, path in enumerate(self.paths)}

        def on_invalid_tool(name: str, error: InvalidRequest) -> None:
            on_invalid(own_places.get(name, name), self._in_own_words(error))

        tools = read_nested_tools(
            self.nested, param="tools", open_objects=open_objects, on_invalid=on_invalid_tool
        )
        return tuple(map(self._at_own_place, tools))

    def _at_own_place(self, tool: Tool) -> Tool:
        """The tool with its namespace and the path in the request."""
        at = int(tool.param.removeprefix("tools[").partition("]")[0])
        path = f"{self.paths[at]}.{'format.definition' if tool.custom else 'parameters'}"
        return replace(tool, namespace=self.namespaces[at], param=path)

    def _in_own_words(self, error: InvalidRequest) -> InvalidRequest:
        """The error with the path of the request. The path of `error` counts functions and custom
        tools only, and has the members of chat completions."""
        param = error.param or ""
        for at, path in enumerate(self.paths):
            place = f"tools[{at}]"
            if param != place and not param.startswith(f"{place}."):
                continue
            own, message = param.replace(place, path, 1), error.message.replace(place, path)
            for inner in (".function", ".custom"):
                own = own.replace(f"{path}{inner}", path, 1)
                message = message.replace(f"{path}{inner}", path)
            grammar = f"{path}.format.grammar"
            own = own.replace(grammar, f"{path}.format", 1)
            message = message.replace(grammar, f"{path}.format")
            return error.reworded(message, own)
        return error


def _unknown_type(kind: object, path: str) -> InvalidTools | UnsupportedParameter:
    path = f"{path}.type"
    if not isinstance(kind, str):
        return InvalidTools(f'{path!r} must be a string, for example "function".', param=path)
    return UnsupportedParameter(
        f'{path!r} is {kind!r}, which is not supported. Use the type "function", "custom" or '
        '"namespace".',
        param=path,
    )


def _check_fields(kind: str, entry: Mapping[str, Any], path: str) -> None:
    known = FIELDS[kind]
    for name, value in entry.items():
        if name not in (*known, *IGNORED_FIELDS) and value not in (None, False):
            place = member_path(path, name)
            raise UnsupportedParameter(
                f"{place!r} is not supported. A tool of the type {kind!r} has the members "
                f"{', '.join(known)}.",
                param=place,
            )
    callers = entry.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        raise UnsupportedParameter(
            f"{f'{path}.allowed_callers'!r} must contain 'direct'. Programs of the model can't "
            "call tools here.",
            param=f"{path}.allowed_callers",
        )


def _shown(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: entry.get(name) for name in FIELDS[kind]}
    if kind == "custom" and shown["format"] is None:
        shown["format"] = {"type": "text"}
    return shown


def read_tool_choice(choice: object) -> ToolChoice:
    """Raises InvalidRequest, UnknownTool and UnsupportedParameter."""
    if choice is None:
        return "auto"  # the plan changes it to "none" if there are no tools
    if choice in MODES:
        return choice  # type: ignore[return-value]
    if not isinstance(choice, dict):
        raise unknown_value("tool_choice", TOOL_CHOICES, choice, MODES)
    fields = Fields(choice, "tool_choice")
    kind = fields.text("type")
    if kind == "allowed_tools":
        return _allowed_tools(fields)
    return NamedTool(_tool(fields))


def _allowed_tools(choice: Fields) -> AllowedTools:
    mode = choice.values.get("mode")
    if mode not in ("auto", "required"):
        raise unknown_value(choice.path("mode"), '"auto" or "required"', mode, MODES[1:])
    entries = choice.items("tools")
    path = choice.path("tools")
    if not entries:
        raise UnknownTool(
            f"{path!r} is empty. Name at least one of the request's tools.", param=path
        )
    names = []
    for at, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise invalid_value(f"{path}[{at}]", "an object with a type and a name", entry)
        names.append(_tool(Fields(entry, f"{path}[{at}]")))
    return AllowedTools(mode, tuple(dict.fromkeys(names)))


def _tool(fields: Fields) -> str:
    """The name in `{"type": "function", "name": …}` or `{"type": "custom", "name": …}`. The type of
    a built-in tool is its name."""
    kind = fields.text("type")
    if kind is not None and kind in BY_TYPE:
        return kind
    if kind not in ("function", "custom"):
        path = fields.path("type")
        raise UnsupportedParameter(
            f"{path!r} must be 'function', 'custom' or one of {', '.join(BY_TYPE)}, but is "
            f"{kind!r}. Other tools can't be called here.",
            param=path,
        )
    name = fields.text("name")
    if not name:
        raise fields.wrong("name", "the name of a tool")
    return name
