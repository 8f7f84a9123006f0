"""Collects the events of one response in content blocks, and makes the events that announce them.

A stream sends those events, and a complete message has the blocks, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)

from ....chat.choice import GatewayCallRan, TokenIds
from ....chat.compaction.compacted import Compacted, sealed
from ....chat.response import ChatResponse, ResponseEvent
from ....sealing import OwnerSeal
from ...shared.mcp import McpOutcome
from ...shared.tool_search import Found
from ...shared.web_fetch import Fetched
from ...shared.web_search import FoundPages, Results
from ..conversation.call_ids import server_id, shown_id
from .blocks import CompactionBlock, Event, ResultBlock, TextBlock, ThinkingBlock, ToolUseBlock

Block = TextBlock | ThinkingBlock | ToolUseBlock | ResultBlock | CompactionBlock


class Content:
    """`seal`: of the client."""

    def __init__(self, response: ChatResponse, seal: OwnerSeal | None = None) -> None:
        self._response = response
        self._seal = seal
        repeated = response.request.repeated
        self._eager: frozenset[str] = repeated.get("eager", frozenset())
        self._mcp: Mapping[str, str] = repeated.get("mcp", {})
        """The names of the MCP servers, by the names of their tools."""
        self._omitted: bool = repeated.get("omitted", False)
        self._sign = response.request.sign_reasoning or (lambda _: "")
        self._blocks: list[Block] = []
        self._open: Block | None = None
        self._pages = FoundPages()
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def results(self, kind: str) -> int:
        """Return the number of results of a type."""
        return sum(
            isinstance(block, ResultBlock) and block.content["type"] == kind
            for block in self._blocks
        )

    @property
    def has_calls(self) -> bool:
        """Whether there are calls for the client."""
        return any(
            isinstance(block, ToolUseBlock) and block.type == "tool_use"
            for block in self._complete()
        )

    def blocks(self) -> list[dict[str, Any]]:
        return [block.body() for block in self._complete()]

    def add(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        for each in events:
            match each.event:
                case ReasoningDelta(text) if text:
                    yield from self._add_thinking(text)
                case ContentDelta(text) if text:
                    yield from self._add_text(text)
                case CallStart() as start:
                    yield from self._close()
                    yield from self._begin(self._call(start))
                case ArgumentsDelta(_, text):
                    assert isinstance(self._open, ToolUseBlock)
                    yield from self._open.add(text)
                case CallEnd():
                    assert isinstance(self._open, ToolUseBlock)
                    yield from self._close()
                case GatewayCallRan(start, shown):
                    if isinstance(shown, Results):
                        self._pages.add(shown.pages)
                    result = result_block(self._call_id(start), shown)
                    yield from self._begin(ResultBlock(len(self._blocks), result))
                    yield from self._close()
                case TokenIds(ids):
                    self.token_ids += ids
                case Compacted() as made:
                    text = sealed(made, self._seal)
                    yield from self._begin(CompactionBlock(len(self._blocks), made.summary, text))
                    yield from self._close()
                case Finish() as finish:
                    self.finish = finish
                    if not isinstance(self._open, ToolUseBlock):  # cut: no event says that it ended
                        yield from self._close()

    def _complete(self) -> list[Block]:
        return [
            block for block in self._blocks if not isinstance(block, ToolUseBlock) or block.complete
        ]

    def _call(self, start: CallStart) -> ToolUseBlock:
        index, call_id, name = len(self._blocks), self._call_id(start), start.name
        if (server := self._mcp.get(name)) is not None:
            return ToolUseBlock(
                index, call_id, name, eager=True, type="mcp_tool_use", server=server
            )
        if name in self._response.request.gateway_tools:
            return ToolUseBlock(index, call_id, name, eager=True, type="server_tool_use")
        return ToolUseBlock(index, call_id, name, name in self._eager)

    def _call_id(self, start: CallStart) -> str:
        place = (self._response.call_id(start), self._response.head.id, start.index)
        if start.name not in self._response.request.gateway_tools:
            return shown_id(*place)
        return server_id(*place, mcp=start.name in self._mcp)

    def _add_thinking(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, ThinkingBlock):
            yield from self._close()
            block = ThinkingBlock(len(self._blocks), self._sign, self._omitted)
            yield from self._begin(block)
        assert isinstance(self._open, ThinkingBlock)
        yield from self._open.add(text)

    def _add_text(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, TextBlock):
            yield from self._close()
            yield from self._begin(TextBlock(len(self._blocks), self._pages))
        assert isinstance(self._open, TextBlock)
        yield from self._open.add(text)

    def _begin(self, block: Block) -> Iterator[Event]:
        self._blocks.append(block)
        self._open = block
        yield from block.begin()

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            yield from self._open.end()
        self._open = None


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
