"""The block with the result of a search for deferred tools that the gateway ran."""

from __future__ import annotations

from typing import Any

from ...shared.tool_search import Found


def search_result(call_id: str, found: Found) -> dict[str, Any]:
    """`call_id`: of the search's block."""
    return {"type": "tool_search_tool_result", "tool_use_id": call_id, "content": _content(found)}


def _content(found: Found) -> dict[str, Any]:
    if found.error is not None:
        return {
            "type": "tool_search_tool_result_error",
            "error_code": "invalid_tool_input",
            "error_message": found.error,
        }
    references = [{"type": "tool_reference", "tool_name": name} for name in found.names]
    return {"type": "tool_search_tool_search_result", "tool_references": references}
