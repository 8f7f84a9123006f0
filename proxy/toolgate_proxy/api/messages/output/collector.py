"""Collects the events of one response in content blocks, and makes the events that announce them.

A stream sends those events, and a complete message has the blocks, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)

from ....chat.choice import FeatureEvent, GatewayCallRan, TokenIds
from ....chat.response import ChatResponse, ResponseEvent
from ..conversation.call_ids import shown_id
from ..feature import CLIENTS, GATEWAYS, Block, Event, Use, written_of
from .blocks import ResultBlock, TextBlock, ThinkingBlock, ToolUseBlock


class Content:
    def __init__(self, response: ChatResponse) -> None:
        self._response = response
        self._written = written_of(response.request)
        made = (feature.output(response) for feature in self._written.features)
        self._features = [each for each in made if each is not None]
        self._blocks: list[Block] = []
        self._open: Block | None = None
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def usage(self) -> dict[str, Any]:
        """Return the members of the usage that features add."""
        return {name: used for each in self._features for name, used in each.usage().items()}

    def members(self) -> dict[str, Any]:
        """Return the members of the message that features add."""
        return {name: value for each in self._features for name, value in each.members().items()}

    @property
    def stop_reason(self) -> str | None:
        """Why the response ended, if only a feature knows it."""
        reason = "" if self.finish is None else self.finish.reason
        found = (feature.stop_reason(reason) for feature in self._features)
        return next((each for each in found if each is not None), None)

    @property
    def has_calls(self) -> bool:
        """Whether there are calls for the client."""
        return any(
            isinstance(block, ToolUseBlock) and block.use is CLIENTS for block in self._complete()
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
                    for result in self._results(self._call_id(start), shown):
                        yield from self._begin(ResultBlock(len(self._blocks), result))
                    yield from self._close()
                case TokenIds(ids):
                    self.token_ids += ids
                case FeatureEvent() as event:
                    for feature in self._features:
                        if (block := feature.block(event, len(self._blocks))) is not None:
                            yield from self._begin(block)
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
        use, name = self._use(start.name), start.name
        eager = use is not CLIENTS or name in self._written.eager
        return ToolUseBlock(len(self._blocks), self._call_id(start), name, eager, use)

    def _use(self, name: str) -> Use:
        if name not in self._response.request.gateway_tools:
            return CLIENTS
        found = (feature.use(name) for feature in self._features)
        return next((use for use in found if use is not None), GATEWAYS)

    def _call_id(self, start: CallStart) -> str:
        shown = shown_id(self._response.call_id(start), self._response.head.id, start.index)
        return f"{self._use(start.name).prefix}{shown}"

    def _results(self, call_id: str, shown: object) -> list[dict[str, Any]]:
        found = (feature.result(call_id, shown) for feature in self._features)
        return [block for block in found if block is not None]

    def _citations(self, text: str) -> Iterator[dict[str, Any]]:
        for feature in self._features:
            yield from feature.citations(text)

    def _add_thinking(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, ThinkingBlock):
            yield from self._close()
            block = ThinkingBlock(
                len(self._blocks), self._written.sign, self._written.omits_thinking
            )
            yield from self._begin(block)
        assert isinstance(self._open, ThinkingBlock)
        yield from self._open.add(text)

    def _add_text(self, text: str) -> Iterator[Event]:
        if not isinstance(self._open, TextBlock):
            yield from self._close()
            yield from self._begin(TextBlock(len(self._blocks), self._citations))
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
