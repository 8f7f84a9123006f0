"""Tools and tool choices, as all APIs read them. The model is not offered tools with
`defer_loading` until the conversation adds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.errors import InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.tools import Tool

from ...request_fields import Fields, invalid_value, unknown_value

DEFERRED = "defer_loading"
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
SEARCH = "tool_search"
"""Beginning of the types of tools that search for deferred tools."""


@dataclass(frozen=True)
class _LeftOut:
    kind: str
    name: object
    """Anthropic's tools have names, by which a choice refers to them."""
    path: str


@dataclass
class HostedTools:
    """The hosted tools of one request. Clients such as Codex and Claude Code send some with each
    request. `omit`: leave them out instead of refusing them."""

    omit: bool
    _left_out: list[_LeftOut] = field(default_factory=list)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of those that were left out, each once."""
        return tuple(dict.fromkeys(each.kind for each in self._left_out))

    @property
    def names(self) -> set[str]:
        """The names of those that were left out and have one."""
        return {each.name for each in self._left_out if isinstance(each.name, str)}

    @property
    def has_search(self) -> bool:
        """Whether a tool that searches for deferred tools was left out."""
        return any(each.kind.startswith(SEARCH) for each in self._left_out)

    def leaves_out(self, entry: object, path: str) -> bool:
        """Raises UnsupportedParameter for a hosted tool if such tools are refused."""
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(kind, str) or not _is_hosted(kind):
            return False
        if not self.omit:
            raise UnsupportedParameter(
                f"{path!r} is the hosted tool {kind!r}, which this gateway does not have. Remove "
                "it, or offer a function.",
                param=path,
            )
        self._left_out.append(_LeftOut(kind, entry.get("name"), path))
        return True

    def check_choice(self, choice: ToolChoice, offered: Sequence[Tool]) -> None:
        """Raises InvalidTools if the choice names a tool that was left out."""
        if not isinstance(choice, NamedTool) or any(tool.name == choice.name for tool in offered):
            return
        for each in self._left_out:
            if choice.name == each.name:
                raise InvalidTools(
                    f"'tool_choice' requires a call, but this gateway does not have the hosted "
                    f"tool {each.kind!r}. Offer a function.",
                    param=each.path,
                )


@lru_cache(maxsize=256)
def _is_hosted(kind: str) -> bool:
    return HOSTED.fullmatch(kind) is not None


class Entry(NamedTuple):
    path: str
    """Of the tool in the request."""
    tool: Any
    """In the form of chat completions."""
    deferred: bool = False
    namespace: str = ""
    """The namespace of the Responses API, if it has one."""
    parsed: Tool | None = None
    """The tool at any place, if it was parsed before."""

    @property
    def name(self) -> str | None:
        return function_name(self.tool)

    @property
    def function(self) -> Mapping[str, Any]:
        function: Mapping[str, Any] = function_of(self.tool)
        return function


class Shown(NamedTuple):
    """A tool as a response of the Responses API repeats it."""

    body: dict[str, Any]
    name: str | None = None
    """The name by which the model knows it; None: the response repeats it in any case."""
    inner: tuple[Shown, ...] | None = None
    """The tools of a namespace."""


class Taken(NamedTuple):
    """What an entry of `tools` is."""

    entries: Sequence[Entry] = ()
    """The tools that the model is offered."""
    shown: Shown | None = None
    """None: the API does not repeat tools, or the entry is left out."""


def function_entry(path: str, function: object, *, deferred: bool = False) -> Entry:
    """Return the entry of a function without an object around it."""
    return Entry(path, {"type": "function", "function": function}, deferred)


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
    """The name in `{"function": {"name": …}}`, `{"custom": {"name": …}}` or `{"name": …}`."""
    function = function_of(entry) if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def function_of(entry: Mapping[str, Any]) -> Any:
    """The function or custom tool of an entry, which may be without an object around it."""
    return entry.get("custom" if entry.get("type") == "custom" else "function", entry)


def deferred_flag(tool: object) -> object:
    """Return `defer_loading` of a tool or its function; None if neither has it."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    own = tool.get(DEFERRED)
    return function.get(DEFERRED) if own is None and isinstance(function, dict) else own


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
