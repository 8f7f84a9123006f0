"""The search for deferred tools. Chat completions have no form for a call that the gateway runs, so
the client sees nothing of it but its tokens in the usage.

The history has only the client's own calls. A search is written before the first call of each tool
that was deferred, always in the same way, so the same history always has the same prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.chat_request import AllowedTools, NamedTool, ToolChoice
from toolgate_core.toolset import Toolset

from ...shared_tools import DEFERRED, SharedTools, not_deferred
from ..shared.tool_changes import ToolChanges
from ..shared.tool_search import QUERY, Method, method_of
from ..shared.tools import function_name

NAME = "tool_search"
"""The search's name for the model, and its type in OpenAI's form."""
OFFERED = ("function", "custom")

Message = dict[str, Any]


def with_search(body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
    """Return the body with all tools after the first `listed` ones deferred, and with a search.
    Tools that say whether they are deferred stay as they are. So does a body without deferred
    tools, with a search of its own, or whose response can't have a search."""
    tools = body.get("tools")
    if not isinstance(tools, list) or not _is_possible(body):
        return body
    searched: list[Any] | None
    if isinstance(tools, SharedTools):
        searched = tools.kept(("listed", listed), lambda tools: _shared(tools, listed))
    else:
        searched = _with_search(tools, listed)
    return body if searched is None else {**body, "tools": searched}


def _shared(tools: list[Any], listed: int) -> SharedTools | None:
    searched = _with_search(tools, listed)
    return None if searched is None else SharedTools(searched)


def _with_search(tools: list[Any], listed: int) -> list[Any] | None:
    if any(_method(tool) or function_name(tool) == NAME for tool in tools):
        return None
    marked: list[object] = []
    undecided = 0
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") in OFFERED and flag_of(tool) is None:
            undecided += 1
            marked.append(tool if undecided <= listed else {**tool, DEFERRED: True})
        else:
            marked.append(tool)
    return [*marked, {"type": NAME}] if any(map(flag_of, marked)) else None


def requested_search(values: Mapping[str, Any]) -> Method | None:
    """Return how the search of a request searches; None if it has none that can find a tool."""
    tools = values.get("tools")
    if not tools or not _is_possible(values) or not any(map(flag_of, tools)):
        return None
    return next((method for _, tool in not_deferred(tools) if (method := _method(tool))), None)


def is_search(tool: object) -> bool:
    """Return whether an entry of `tools` is a search that the gateway runs."""
    return _method(tool) is not None


def flag_of(tool: object) -> object:
    """Return `defer_loading` of a tool or its function; None if neither has it."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    own = tool.get(DEFERRED)
    return function.get(DEFERRED) if own is None and isinstance(function, dict) else own


@dataclass
class Searches:
    """Writes the searches that a history does not have."""

    tools: Toolset
    choice: ToolChoice
    _calls: int = 0
    """The number of calls so far."""

    def before(self, message: Message) -> list[Message]:
        """Return the search that found the tools that a message calls, with its result."""
        calls = message.get("tool_calls") or ()
        written = self._written(call["function"]["name"] for call in calls)
        self._calls += len(calls)
        return written

    def at_end(self) -> list[Message]:
        """Return a search that finds the tools that `tool_choice` names."""
        choice = self.choice
        if isinstance(choice, AllowedTools):
            return self._written(choice.names)
        return self._written([choice.name] if isinstance(choice, NamedTool) else ())

    def _written(self, names: Iterable[str]) -> list[Message]:
        changes = ToolChanges(self.tools)
        found = [name for name in dict.fromkeys(names) if self.tools.is_deferred(name)]
        for name in found:
            changes.refer(name)
        content = changes.parts()
        if not content:
            return []
        # The form that the templates of Kimi need. Others leave ids out, or take any.
        call_id = f"functions.{NAME}:{self._calls}"
        self._calls += 1
        function = {"name": NAME, "arguments": json.dumps({QUERY: " ".join(found)})}
        call = {"id": call_id, "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": content},
        ]


def _method(tool: object) -> Method | None:
    """Return how a search that the gateway runs searches, in OpenAI's or Anthropic's form."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or kind in OFFERED:
        return None
    if kind == NAME and tool.get("execution") in (None, "server"):
        return "bm25"
    return method_of(kind)


def _is_possible(body: Mapping[str, Any]) -> bool:
    """Return whether the response can be generated in several rounds of which the client sees only
    the last call."""
    options = body.get("stream_options")
    return not (
        body.get("n") not in (None, 1)
        or body.get("continue_final_message")
        or body.get("return_token_ids")
        or (isinstance(options, dict) and options.get("toolgate_trace"))
    )
