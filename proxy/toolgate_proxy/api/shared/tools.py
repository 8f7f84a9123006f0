"""Tools and tool choices, as all APIs read them. The model is not offered tools with
`defer_loading` until the conversation adds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import orjson

from toolgate_core.errors import InvalidRequest, InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.tools import TOOL_NAME, OnInvalid, Tool, Words

from ...request.chat_request import AllowedTools, NamedTool, ToolChoice
from ...request.toolset import Toolset
from ...request_fields import DEFERRED, Fields, invalid_value, unknown_value

MAX_LOADED = 1_000
"""Most tools of a request that are not deferred."""
MAX_TOOLS = 10_001
"""Most tools of a request: 10,000 and a search."""

Mode = Literal["none", "auto", "required"]
MODES: dict[str, Mode] = {"none": "none", "auto": "auto", "required": "required"}
"""By the string that a client sends."""
ALLOWED_MODES = ("auto", "required")
"""Modes of a choice among some of the tools."""
TOOL_CHOICES = '"none", "auto", "required" or an object that names a tool'
HOSTED = re.compile(
    r"apply_patch|code_interpreter|computer(?:_use(?:_preview)?)?|file_search|image_generation"
    r"|local_shell|mcp(?:_toolset)?|programmatic_tool_calling|shell"
    r"|tool_search(?:_tool_(?:bm25|regex))?|web_search(?:_2025_08_26|_preview(?:_2025_03_11)?)?"
    r"|(?:advisor|code_execution|tool_search_tool_(?:bm25|regex)|web_fetch|web_search)_[0-9]{8}"
)
"""Types of hosted tools: those that OpenAI or Anthropic runs or defines, and that no model here can
be offered. Those of Anthropic's server tools end with a date. They are in a response header, so no
other text may pass for one."""


@dataclass
class HostedTools:
    """The hosted tools of one request. Clients such as Codex and Claude Code send some with each
    request. `omit`: leave them out instead of refusing them."""

    omit: bool
    _left_out: list[Fields] = field(default_factory=list)
    """Anthropic's tools have names, by which a choice refers to them."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of those that were left out, each once."""
        return tuple(dict.fromkeys(each.values["type"] for each in self._left_out))

    @property
    def names(self) -> set[str]:
        """The names of those that were left out and have one."""
        return {name for each in self._left_out if isinstance(name := each.values.get("name"), str)}

    @property
    def has_search(self) -> bool:
        """Whether a tool that searches for deferred tools was left out."""
        return any(kind.startswith("tool_search") for kind in self.types)

    def leaves_out(self, entry: object, path: str) -> bool:
        """Raise UnsupportedParameter for a hosted tool if such tools are refused."""
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(kind, str) or not HOSTED.fullmatch(kind):
            return False
        if not self.omit:
            raise UnsupportedParameter(
                f"{path!r} is the hosted tool {kind!r}, which this gateway does not have. Remove "
                "it, or offer a function.",
                param=path,
            )
        self._left_out.append(Fields(entry, path))
        return True

    def check_choice(self, choice: ToolChoice, offered: Sequence[Tool]) -> None:
        """Raise InvalidTools if the choice names a tool that was left out."""
        if not isinstance(choice, NamedTool) or any(tool.name == choice.name for tool in offered):
            return
        for each in self._left_out:
            if choice.name == each.values.get("name"):
                raise InvalidTools(
                    f"'tool_choice' requires a call, but this gateway does not have the hosted "
                    f"tool {each.values['type']!r}. Offer a function.",
                    param=each.place,
                )


class OfferedTool(NamedTuple):
    """A tool that the model is offered, as its request has it."""

    path: str
    """Of the tool in the request."""
    tool: Any
    """In the form of chat completions."""
    deferred: bool = False
    namespace: str = ""
    """The namespace of the Responses API, if it has one."""
    parsed: Tool | None = None
    """The tool at any place, if it was parsed before."""
    words: Words | None = None
    """What its paths are in the request, if not as in the API."""

    @property
    def name(self) -> str | None:
        return function_name(self.tool)


MAX_KNOWN_LENGTH, MAX_KNOWN_BYTES = 16_000, 2_000_000
"""Most bytes of the JSON of a tool of earlier requests, and of all. What was read takes about
twenty times as much memory."""
MISSED = 4
"""How many times as many bytes are read before all are forgotten. If the tools of one request did
not fit, and each replaced another one, none of them would be found in the next request."""


class ReadToolCache:
    """What was read of the tools of earlier requests. Clients send the same tools with every
    request, and to read one anew takes ten times as long as to find it here."""

    def __init__(self) -> None:
        self._read: dict[Hashable, dict[bytes, Any]] = {}
        self._bytes = 0
        """Of the tools that were read since all were forgotten."""

    def find(self, kind: Hashable, entry: object, read: Callable[..., Any], *more: str) -> Any:
        """Return what `read` returns for an entry of `tools` and `more`. It must depend on `kind`
        and the entry alone, and nobody may change it. Return None for an entry that is invalid or
        too large."""
        try:
            text = orjson.dumps(entry)
            cached = self._read.get(kind, {}).get(text)
            if cached is None and (size := len(text) + len(str(kind))) <= MAX_KNOWN_LENGTH:
                sent = orjson.loads(text)
                cached = read(sent, *more), sent if b"null" in text else None
                if self._bytes + size <= MAX_KNOWN_BYTES:
                    self._read.setdefault(kind, {})[text] = cached
                elif self._bytes > MISSED * MAX_KNOWN_BYTES:  # what is known is no longer sent
                    self._read, self._bytes, size = {}, 0, 0
                self._bytes += size
        except (InvalidRequest, RecursionError, TypeError, ValueError):
            return None
        known, written = cached or (None, None)
        # A number that is not finite is written as null, too.
        return known if written is None or written == entry else None


READ_TOOLS = ReadToolCache()


class EchoedTool(NamedTuple):
    """A tool as a response of the Responses API repeats it."""

    body: dict[str, Any]
    name: str | None = None
    """The name by which the model knows it; None: the response repeats it in any case."""
    inner: tuple[EchoedTool, ...] | None = None
    """The tools of a namespace."""


class ReadTool(NamedTuple):
    """What an entry of `tools` was read as."""

    entries: Sequence[OfferedTool] = ()
    """The tools that the model is offered."""
    shown: EchoedTool | None = None
    """None: the API does not repeat tools, or the entry is left out."""


Parse = Callable[[Sequence[OfferedTool], OnInvalid], tuple[Tool, ...]]


def function_entry(path: str, function: object, *, deferred: bool = False) -> OfferedTool:
    """Return the entry of a function without an object around it."""
    return OfferedTool(path, {"type": "function", "function": function}, deferred)


def typed(kind: str, description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a value."""
    return {"type": kind, **more, "description": description}


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object with no other members. `required`: all of them, if none is
    named."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*(required or properties)],
        "additionalProperties": False,
    }


def read_toolset(
    entries: Sequence[OfferedTool],
    parse: Parse,
    on_invalid: OnInvalid,
    hosted: HostedTools,
    optional: Container[str],
) -> Toolset:
    """Return the tools of a request. A deferred entry is parsed when it is added. If a search was
    left out that only a provider can run, nothing would add them, so they are loaded at once.
    `optional`: names of tools that are left out if they are invalid, whatever `on_invalid` does
    with others.

    Raise InvalidRequest."""
    left_out = hosted.names

    def leave_out(name: str, error: InvalidRequest) -> None:
        if name not in optional:
            on_invalid(name, error)
        left_out.add(name)

    loaded, deferred = list[OfferedTool](), dict[str, list[OfferedTool]]()
    defers = not hosted.has_search and any(entry.deferred for entry in entries)
    names = {entry.name for entry in entries if not entry.deferred} if defers else set()
    for entry in entries:
        name = entry.name if defers and entry.deferred else None
        # An invalid name is an error, and so are two tools of one name.
        if name is None or name in names or not TOOL_NAME.fullmatch(name):
            loaded.append(entry)
        else:
            deferred.setdefault(name, []).append(entry)
    if len(loaded) > MAX_LOADED:
        raise too_many(len(loaded))

    def first(entries_of_name: Sequence[OfferedTool], on_invalid: OnInvalid) -> Tool | None:
        # Several entries of one name are refused, unless they are the same tool.
        return next(iter(parse(entries_of_name, on_invalid)), None)

    parsed = {name: partial(first, each) for name, each in deferred.items()}
    searchable = [function_of(each[0].tool) for each in deferred.values()]
    return Toolset(parse(loaded, leave_out), parsed, left_out, leave_out, searchable)


def check_loaded(entries: Iterable[object], kinds: Container[object]) -> None:
    """Raise InvalidRequest for too many functions that are not deferred, before they are read.
    `kinds`: the types of functions."""
    functions = (each for each in entries if isinstance(each, dict) and each.get("type") in kinds)
    if (count := sum(not deferred_flag(each) for each in functions)) > MAX_LOADED:
        raise too_many(count)


def too_many(count: int) -> InvalidRequest:
    return InvalidRequest(
        f"'tools' has {count:,} tools without 'defer_loading', but at most {MAX_LOADED:,} are "
        "allowed. Defer some.",
        param="tools",
    )


def read_tool_choice(choice: object, name_of: Callable[[Fields], str]) -> ToolChoice:
    """`tool_choice` of OpenAI's APIs. `name_of`: reads the name in an object that names a tool.
    `{"type": "allowed_tools", "allowed_tools": {"mode": …, "tools": […]}}` names several; in the
    Responses API mode and tools are beside the type. Raise InvalidRequest, UnknownTool and
    UnsupportedParameter."""
    if choice is None:
        return "auto"  # the plan changes it to "none" if there are no tools
    # Some clients write the mode as the type of an object.
    is_mode = isinstance(choice, dict) and not function_name(choice)
    mode = choice.get("type") if is_mode else choice  # type: ignore[attr-defined]
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    if not isinstance(choice, dict):
        raise unknown_value("tool_choice", TOOL_CHOICES, choice, MODES)
    fields = Fields(choice, "tool_choice")
    if choice.get("type") != "allowed_tools":
        return NamedTool(name_of(fields))
    inner = fields.mapping("allowed_tools")
    allowed = fields if inner is None else Fields(inner, fields.path("allowed_tools"))
    mode = allowed.values.get("mode", "auto")
    if mode not in ALLOWED_MODES:
        raise unknown_value(allowed.path("mode"), '"auto" or "required"', mode, ALLOWED_MODES)
    path, entries = allowed.path("tools"), allowed.items("tools")
    if not entries:
        raise UnknownTool(
            f"{path!r} is empty. Name at least one of the request's tools.", param=path
        )
    names = []
    for at, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise invalid_value(f"{path}[{at}]", "an object with a type and a name", entry)
        names.append(name_of(Fields(entry, f"{path}[{at}]")))
    return AllowedTools(mode, tuple(dict.fromkeys(names)))


def function_name(entry: object) -> str | None:
    """Return the name in `{"function": {"name": …}}`, `{"custom": {"name": …}}` or `{"name":
    …}`."""
    function = function_of(entry) if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def function_of(entry: Mapping[str, Any]) -> Any:
    """Return the function or custom tool of an entry, which may be without an object around it."""
    return entry.get("custom" if entry.get("type") == "custom" else "function", entry)


def deferred_flag(tool: object) -> object:
    """Return `defer_loading` of a tool or its function; None if neither has it."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    flag = tool.get(DEFERRED)
    return function.get(DEFERRED) if flag is None and isinstance(function, dict) else flag


Form = Literal["chat completions", "the Responses API", "the Messages API", "MCP"]
WRITTEN: dict[Form, str] = {
    "chat completions": '{"type": "function", "function": {"name", "description", "parameters"}}',
    "the Responses API": '{"type": "function", "name", "description", "parameters"}',
    "the Messages API": '{"name", "description", "input_schema"}',
}
"""By API of this gateway: how a function is written."""


def form_of(tool: Mapping[str, object]) -> Form | None:
    """Return the API whose form a tool has; None for a tool of no known form."""
    if isinstance(tool.get("function"), dict):
        return "chat completions"
    if "name" not in tool:
        return None
    if "input_schema" in tool:
        return "the Messages API"
    if "inputSchema" in tool:
        return "MCP"
    is_function = "parameters" in tool or tool.get("type") == "function"
    return "the Responses API" if is_function else None


NESTED, FLAT = ("chat completions", "the Responses API")
"""The forms of OpenAI's APIs."""


def own_form(tool: dict[str, Any], expected: Form, path: str) -> tuple[dict[str, Any], bool]:
    """Return the tool, and whether it was in the form of OpenAI's other API. Raise InvalidTools for
    other forms, and for a mixture."""
    function = tool.get("function")
    rest = {name: value for name, value in tool.items() if name not in ("type", "function")}
    if tool.get("type") == "function" and form_of(tool) != expected:
        if expected == NESTED and function is None and "name" in tool:
            return {"type": "function", "function": rest}, True
        if expected == FLAT and isinstance(function, dict) and not rest.keys() & function.keys():
            return {"type": "function", **rest, **function}, True
    check_form(tool, expected, path)
    return tool, False


def check_form(tool: Mapping[str, object], expected: Form, path: str) -> None:
    """Raise InvalidTools for a tool in the form of another API than `expected`."""
    if (form := form_of(tool)) not in (None, expected):
        other = f"It has the form of {form}. Write it as {WRITTEN[expected]}."
        raise InvalidTools(f"{path!r} is no tool of {expected}. {other}", param=path)
