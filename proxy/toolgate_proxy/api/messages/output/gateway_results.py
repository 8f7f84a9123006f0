"""The blocks with the results of calls that the gateway ran."""

from __future__ import annotations

from typing import Any

from ...shared.mcp import McpOutcome
from ...shared.tool_search import Found
from ...shared.web_fetch import Fetched
from ...shared.web_search import Results

WEB_RESULT = "web_search_tool_result"
"""Type of the block of a web search."""
FETCH_RESULT = "web_fetch_tool_result"
"""Type of the block of a web fetch."""


def result_block(call_id: str, shown: Found | Results | Fetched | McpOutcome) -> dict[str, Any]:
    """`call_id`: of the block with the call."""
    match shown:
        case McpOutcome():
            return _outcome(call_id, shown)
        case Found():
            kind, content = "tool_search_tool_result", _found(shown)
        case Results():
            kind, content = WEB_RESULT, _pages(shown)
        case Fetched():
            kind, content = FETCH_RESULT, _fetched(shown)
    return {"type": kind, "tool_use_id": call_id, "content": content}


def _outcome(call_id: str, outcome: McpOutcome) -> dict[str, Any]:
    text = outcome.output if outcome.error is None else outcome.error
    return {
        "type": "mcp_tool_result",
        "tool_use_id": call_id,
        "is_error": outcome.error is not None,
        "content": [{"type": "text", "text": text}] if text else [],
    }


def _found(found: Found) -> Any:
    if found.error is not None:
        return {
            "type": "tool_search_tool_result_error",
            "error_code": "invalid_tool_input",
            "error_message": found.error,
        }
    references = [{"type": "tool_reference", "tool_name": name} for name in found.names]
    return {"type": "tool_search_tool_search_result", "tool_references": references}


def _pages(results: Results) -> Any:
    if results.problem is not None:
        return {"type": "web_search_tool_result_error", "error_code": results.problem}
    return [
        {
            "type": "web_search_result",
            "url": page.url,
            "title": page.title,
            "encrypted_content": page.sealed,
            "page_age": page.age,
        }
        for page in results.pages
    ]


def _fetched(page: Fetched) -> Any:
    if page.problem is not None:
        return {"type": "web_fetch_tool_result_error", "error_code": page.problem}
    return {
        "type": "web_fetch_result",
        "url": page.url,
        "retrieved_at": page.at,
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": page.text},
            "title": page.title or None,
            "citations": {"enabled": True} if page.citations else None,
        },
    }
