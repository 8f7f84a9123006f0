"""IDs of items. They contain the ID of their response, so that a reference to an item leads to it.

`<prefix>_<response>_<n>` for items of the output, `<prefix>_<response>_in<n>` for those of `input`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "additional_tools": "at",
    "web_search_call": "ws",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}
ITEM_ID = re.compile(r"[a-z]+_(?P<response>.+)_(?:in)?\d+", re.DOTALL)


def item_id(prefix: str, response_id: str, index: int | str) -> str:
    """The id of an item: the same in a stream and in a complete response."""
    return f"{prefix}_{response_id.removeprefix('resp_')}_{index}"


def response_of(item: str) -> str | None:
    """The ID of the response that the item belongs to; None if the ID is not one of ours."""
    found = ITEM_ID.fullmatch(item)
    return f"resp_{found['response']}" if found is not None else None


def with_ids(items: Sequence[Any], response_id: str) -> list[Any]:
    """Items of `input` as they are stored: each with a type and an ID."""
    named = []
    for at, given in enumerate(items):
        item = {"role": "user", "content": given} if isinstance(given, str) else given
        kind = item.get("type") or "message"
        own = item_id(PREFIXES.get(kind, "item"), response_id, f"in{at}")
        named.append({**item, "id": item.get("id") or own, "type": kind})
    return named
