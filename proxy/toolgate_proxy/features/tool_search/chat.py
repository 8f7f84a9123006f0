"""The search for deferred tools in chat completions, by the gateway.

Chat completions have no form for a call that the gateway runs, so the client sees nothing of a
search but its tokens in the usage. The history has only the client's own calls. A search is written
before the first call of each tool that was deferred, always in the same way, so the same history
always has the same prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...api.chat_completions.feature import ChatFeature
from ...api.shared.history import tool_call
from ...api.shared.tool_changes import ToolChanges
from ...api.shared.tools import OfferedTool, ReadTool, deferred_flag, function_entry, function_name
from ...request.chat_request import AllowedTools, NamedTool
from ...request.gateway_tools import GatewayTool
from ...request_fields import DEFERRED, Fields
from ..feature import FeatureInput
from .search import QUERY, TYPE, Method, ToolSearch, method_of, search_function

NAME = "tool_search"
"""The search's name for the model, and its type in OpenAI's form."""
OFFERED = ("function", "custom")

Message = dict[str, Any]


class SearchInChat(ChatFeature):
    TYPES = re.compile(f"{NAME}|{TYPE.pattern}")

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self._method = requested_search(feature_input.values)
        self._calls = 0
        """The number of calls so far."""

    @classmethod
    def prepared(cls, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        return with_search(body, listed)

    def take(self, entry: Fields) -> ReadTool | None:
        return ReadTool() if self._method and _method(entry.values) else None

    def more(self) -> Sequence[OfferedTool]:
        method = self._method
        return [function_entry("tools", search_function(NAME, method))] if method else ()

    def runners(self) -> dict[str, GatewayTool]:
        if self._method is None:
            return {}
        tools, owner = self.input.tools, self.input.client.owner
        finds_any = self.input.choice == "required"
        return {NAME: ToolSearch(self._method, tools, owner, finds_any, shown=False)}

    def before(self, message: Message) -> list[Message]:
        """Return the search that found the tools that a message calls, with its result."""
        if self._method is None:
            return []
        calls = message.get("tool_calls") or ()
        written = self._written(call["function"]["name"] for call in calls)
        self._calls += len(calls)
        return written

    def at_end(self) -> list[Message]:
        """Return a search that finds the tools that `tool_choice` names."""
        choice = self.input.choice
        if self._method is None:
            return []
        if isinstance(choice, AllowedTools):
            return self._written(choice.names)
        return self._written([choice.name] if isinstance(choice, NamedTool) else ())

    def _written(self, names: Iterable[str]) -> list[Message]:
        changes = ToolChanges(self.input.tools)
        deferred = [name for name in dict.fromkeys(names) if self.input.tools.is_deferred(name)]
        for name in deferred:
            changes.refer(name)
        content = changes.parts()
        if not content:
            return []
        # The form that the templates of Kimi need. Others leave ids out, or take any.
        call_id = f"functions.{NAME}:{self._calls}"
        self._calls += 1
        call = tool_call(call_id, NAME, json.dumps({QUERY: " ".join(deferred)}))
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": content},
        ]


def with_search(body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
    """Return the body with all tools after the first `listed` ones deferred, and with a search.
    Tools that say whether they are deferred stay as they are. So does a body without deferred
    tools, with a search of its own, or whose response cannot have a search."""
    tools = body.get("tools")
    if not isinstance(tools, list) or not _is_possible(body):
        return body
    if any(_method(tool) or function_name(tool) == NAME for tool in tools):
        return body
    marked: list[object] = []
    undecided = 0
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") in OFFERED and deferred_flag(tool) is None:
            undecided += 1
            marked.append(tool if undecided <= listed else {**tool, DEFERRED: True})
        else:
            marked.append(tool)
    if not any(map(deferred_flag, marked)):
        return body
    return {**body, "tools": [*marked, {"type": NAME}]}


def requested_search(values: Mapping[str, Any]) -> Method | None:
    """Return how the search of a request searches; None if it has none that can find a tool."""
    tools = values.get("tools")
    if not tools or not _is_possible(values) or not any(map(deferred_flag, tools)):
        return None
    return next((method for tool in tools if (method := _method(tool))), None)


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
