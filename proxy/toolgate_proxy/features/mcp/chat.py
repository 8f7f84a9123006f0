"""MCP servers in chat completions, in the form of LiteLLM's MCP on this API: a response has the
tools of the servers, and the calls that the gateway ran with their results, in
`provider_specific_fields` of its message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, InputDelta

from ...api.chat_completions.feature import ChatFeature, ChatOutput
from ...api.shared.history import tool_call
from ...api.shared.tools import ReadTool
from ...chat.choice import ChoiceEvent, GatewayCallRan
from ...chat.response import ChatResponse
from ...request.gateway_tools import GatewayTool
from ...request_fields import DEFERRED, Fields
from ..feature import FeatureInput
from .servers import MCP, ListedTool, McpOutcome, listing_of, read_entry

FIELDS = "provider_specific_fields"
LISTED, CALLS, RESULTS = "mcp_list_tools", "mcp_tool_calls", "mcp_call_results"
"""Its members."""


@dataclass
class _McpCall:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    result: str = ""


class ChatMcpOutput(ChatOutput):
    """Takes the calls that the gateway runs from the events of one response, so that the client
    does not run them."""

    feature: McpInChat

    def __init__(self, feature: McpInChat, response: ChatResponse) -> None:
        super().__init__(feature, response)
        self._tools = response.request.gateway_tools
        self._running: dict[int, _McpCall] = {}
        self._ran: list[_McpCall] = []

    def take(self, event: ChoiceEvent) -> bool:
        if not self._tools:
            return False
        match event:
            case CallStart(index, name) if name in self._tools:
                self._running[index] = _McpCall(self.response.call_id(event), name)
            case ArgumentsDelta(index, text) if index in self._running:
                self._running[index].arguments.append(text)
            case InputDelta(index) | CallEnd(index) if index in self._running:
                pass
            case GatewayCallRan(start, McpOutcome() as outcome):
                call = self._running.pop(start.index)
                call.result = outcome.text
                self._ran.append(call)
            case _:
                return False
        return True

    def at_start(self) -> dict[str, Any]:
        tools = ({**tool.function(), "strict": False} for tool in self.feature.offered)
        listed = [{"type": "function", "function": tool} for tool in tools]
        return {FIELDS: {LISTED: listed}} if listed else {}

    def at_end(self) -> dict[str, Any]:
        """Return the calls of all rounds: OpenAI's SDK does not add up lists of several deltas."""
        if not self._ran:
            return {}
        calls = [tool_call(call.id, call.name, "".join(call.arguments)) for call in self._ran]
        results = [
            {"tool_call_id": call.id, "result": call.result, "name": call.name}
            for call in self._ran
        ]
        return {FIELDS: {CALLS: calls, RESULTS: results}}


class McpInChat(ChatFeature):
    TYPES = re.compile(MCP)
    ITEMS = (FIELDS,)
    OUTPUT = ChatMcpOutput

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self.offered: list[ListedTool] = []
        self._runners: dict[str, GatewayTool] = {}
        self._waits = False
        """Whether calls wait for an approval."""

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.offered)

    def runners(self) -> dict[str, GatewayTool]:
        """As in LiteLLM, all calls go to the client if one of the servers requires approvals."""
        return {} if self._waits else self._runners

    def take(self, entry: Fields) -> ReadTool | None:
        listing = listing_of(self.input.client, entry.place)
        if listing is None or listing.error is not None:
            return None
        deferred = entry.flag(DEFERRED) is True
        mcp_entry = read_entry(entry, listing, labelled=False)
        self.offered += mcp_entry.allowed
        self._runners |= mcp_entry.runners()
        self._waits = self._waits or entry.values.get("require_approval") != "never"
        return ReadTool(mcp_entry.entries(entry.place, deferred=deferred))

    def turns(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the calls that the gateway ran in an earlier response, and their results."""
        fields = message.get(FIELDS)
        if message["role"] != "assistant" or not isinstance(fields, dict):
            return
        results = {
            result.get("tool_call_id"): result.get("result")
            for result in _objects(fields.get(RESULTS))
            if isinstance(result.get("tool_call_id"), str)
        }
        for call in _objects(fields.get(CALLS)):
            result = results.get(call.get("id")) if isinstance(call.get("id"), str) else None
            if isinstance(result, str) and isinstance(call.get("function"), dict):
                yield {"role": "assistant", "content": None, "tool_calls": [call]}
                yield {"role": "tool", "tool_call_id": call["id"], "content": result}


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
