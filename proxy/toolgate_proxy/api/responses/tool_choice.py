"""`tool_choice` of the Responses API."""

from __future__ import annotations

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.errors import UnknownTool, UnsupportedParameter

from ...request_fields import Fields, invalid_value, unknown_value
from ..shared.tools import ALLOWED_MODES, read_mode
from ..shared.web_search import NAME as WEB_SEARCH
from .builtin_tools.table import BY_TYPE
from .search_entries import WEB_SEARCHES
from .shown_tools import SEARCH


def read_tool_choice(choice: object, *, web_search: bool = False) -> ToolChoice:
    """`web_search`: whether the gateway runs web searches of the request. Raises InvalidRequest,
    UnknownTool and UnsupportedParameter."""
    found = read_mode(choice)
    if isinstance(found, str):
        return found
    fields = Fields(found, "tool_choice")
    kind = fields.text("type")
    if kind == "allowed_tools":
        return _allowed_tools(fields, web_search=web_search)
    return NamedTool(_tool(fields, web_search=web_search))


def _allowed_tools(choice: Fields, *, web_search: bool) -> AllowedTools:
    mode = choice.values.get("mode")
    if mode not in ALLOWED_MODES:
        raise unknown_value(choice.path("mode"), '"auto" or "required"', mode, ALLOWED_MODES)
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
        names.append(_tool(Fields(entry, f"{path}[{at}]"), web_search=web_search))
    return AllowedTools(mode, tuple(dict.fromkeys(names)))


def _tool(fields: Fields, *, web_search: bool) -> str:
    """The name in `{"type": "function", "name": …}` or `{"type": "custom", "name": …}`; that of the
    search in `{"type": "tool_search"}`."""
    kind = fields.text("type")
    if kind == SEARCH:
        return SEARCH
    if kind is not None and kind in BY_TYPE:
        return kind  # the type of a built-in tool is its name
    if web_search and kind in WEB_SEARCHES:
        return WEB_SEARCH
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
