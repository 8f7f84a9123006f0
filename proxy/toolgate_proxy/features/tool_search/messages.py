"""The search for deferred tools in the Messages API."""

from __future__ import annotations

from typing import Any, ClassVar

from ...api.messages.feature import GATEWAY_FIELDS, MessagesFeature, MessagesOutput, tool_name
from ...api.shared.history import Content, text_of
from ...api.shared.tools import ReadTool, function_entry
from ...request.gateway_tools import GatewayTool
from ...request_fields import Fields
from ..feature import FeatureInput
from .search import TYPE, FoundTools, Method, ToolSearch, found_content, method_of, search_function

RESULT = "tool_search_tool_result"


class MessagesToolSearchOutput(MessagesOutput):
    def result(self, call_id: str, shown: object) -> dict[str, Any] | None:
        if not isinstance(shown, FoundTools):
            return None
        return {"type": RESULT, "tool_use_id": call_id, "content": _found(shown)}


class SearchInMessages(MessagesFeature):
    TYPES = TYPE
    ITEMS = (RESULT,)
    OUTPUT = MessagesToolSearchOutput
    USES: ClassVar = {"server_tool_use": ("tool_search_tool_bm25", "tool_search_tool_regex")}

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self._methods: dict[str, Method] = {}
        """By name of the search."""

    def take(self, entry: Fields) -> ReadTool:
        method = method_of(entry.values["type"])
        assert method is not None  # of a type of TYPES
        name = tool_name(entry, GATEWAY_FIELDS)
        self._methods[name] = method
        return ReadTool([function_entry(entry.place, search_function(name, method))])

    def runners(self) -> dict[str, GatewayTool]:
        tools, owner = self.input.tools, self.input.client.owner
        return {name: ToolSearch(method, tools, owner) for name, method in self._methods.items()}

    def content(self, block: Fields, kind: str) -> Content:
        content = block.values.get("content")
        if not isinstance(content, dict):
            return ""
        references = content.get("tool_references")
        if not isinstance(references, list):
            return text_of(content.get("error_message")) or text_of(content.get("error_code"))
        names = [each.get("tool_name") for each in references if isinstance(each, dict)]
        return found_content([name for name in names if isinstance(name, str)], self.input.tools)


def _found(outcome: FoundTools) -> dict[str, Any]:
    if outcome.error is not None:
        return {
            "type": "tool_search_tool_result_error",
            "error_code": "invalid_tool_input",
            "error_message": outcome.error,
        }
    references = [{"type": "tool_reference", "tool_name": name} for name in outcome.names]
    return {"type": "tool_search_tool_search_result", "tool_references": references}
