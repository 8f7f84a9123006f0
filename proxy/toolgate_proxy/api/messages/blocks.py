"""The content blocks of a message. They collect the events of a response, and make the events that
announce them.

A stream sends those events, and a complete message has the blocks, so the two cannot differ. An
event of the API is a dict with its `type`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    ReasoningDelta,
)

from ...chat.choice import FeatureEvent, GatewayCallRan, TokenIdsEvent
from ...chat.response import ChatResponse, ResponseEvent
from .feature import CLIENTS, GATEWAYS, Block, Event, MessagesOutput, Use
from .opaque import shown_id

MAX_DIGITS = 18
"""Characters of an integer that surely fits 64 bits."""


@dataclass
class TextBlock(Block):
    cite: Callable[[str], Iterable[dict[str, Any]]]
    """Returns the citations of the text."""
    _texts: list[str] = field(default_factory=list)
    _citations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, text: str) -> Iterator[Event]:
        self._texts.append(text)
        yield self.delta("text_delta", text=text)

    def end(self) -> Iterator[Event]:
        for citation in self.cite("".join(self._texts)):
            self._citations.append(citation)
            yield self.delta("citations_delta", citation=citation)
        yield from super().end()

    def body(self) -> dict[str, Any]:
        citations = {"citations": self._citations} if self._citations else {}
        return {"type": "text", "text": "".join(self._texts), **citations}


@dataclass
class ThinkingBlock(Block):
    """The thinking, with its signature. `omitted`: the client gets the signature only."""

    sign: Callable[[str], str]
    omitted: bool
    _texts: list[str] = field(default_factory=list)
    _signature: str = ""

    def add(self, text: str) -> Iterator[Event]:
        self._texts.append(text)
        if not self.omitted:
            yield self.delta("thinking_delta", thinking=text)

    def end(self) -> Iterator[Event]:
        self._signature = self.sign("".join(self._texts))
        yield self.delta("signature_delta", signature=self._signature)
        yield from super().end()

    def body(self) -> dict[str, Any]:
        text = "" if self.omitted else "".join(self._texts)
        return {"type": "thinking", "thinking": text, "signature": self._signature}


@dataclass
class ToolUseBlock(Block):
    """A call. `eager`: its events are sent before the call is complete; otherwise all at its end.

    A call that is cut has no `content_block_stop`, and is no part of a complete message. Clients
    parse incomplete input, and would take such a block for a call."""

    id: str
    name: str
    eager: bool
    use: Use = CLIENTS
    complete: bool = False
    _arguments: list[str] = field(default_factory=list)

    def begin(self) -> Iterator[Event]:
        if self.eager:
            yield self.start(self._block({}))

    def add(self, text: str) -> Iterator[Event]:
        if text:
            self._arguments.append(text)
            if self.eager:
                yield self.delta("input_json_delta", partial_json=text)

    def end(self) -> Iterator[Event]:
        """End the call, which is complete and valid."""
        self.complete = True
        if not self.eager:
            yield self.start(self._block({}))
            for text in self._arguments:
                yield self.delta("input_json_delta", partial_json=text)
        yield from super().end()

    def body(self) -> dict[str, Any]:
        text = "".join(self._arguments)
        return self._block(json.loads(text, parse_int=_integer, parse_float=_number))

    def _block(self, arguments: Any) -> dict[str, Any]:
        more = self.use.more
        return {"type": self.use.type, "id": self.id, "name": self.name, **more, "input": arguments}


@dataclass
class ResultBlock(Block):
    """The result of a call that the gateway ran."""

    content: dict[str, Any]

    def body(self) -> dict[str, Any]:
        return self.content


def _integer(text: str) -> Any:
    """JSON has integers of any length; orjson writes those of 64 bits."""
    return int(text) if len(text) <= MAX_DIGITS else orjson.Fragment(text)


def _number(text: str) -> Any:
    """Return the number; one that a double would change keeps its spelling, as in a stream."""
    number = float(text)
    try:
        exact = not math.isinf(number) and Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # its exponent has more than 18 digits
        exact = False
    return number if exact else orjson.Fragment(text)


class Content:
    """Makes the blocks of a message of the events of a response. `eager`: names of the tools whose
    input is streamed before it is complete. `thinking`: makes the block of thinking at a place."""

    def __init__(
        self,
        response: ChatResponse,
        features: list[MessagesOutput],
        eager: Container[str],
        thinking: Callable[[int], ThinkingBlock],
    ) -> None:
        self._response = response
        self._features = features
        self._eager, self._thinking = eager, thinking
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
        reasons = (feature.stop_reason(reason) for feature in self._features)
        return next((each for each in reasons if each is not None), None)

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
                    yield from self._add(ThinkingBlock, text)
                case ContentDelta(text) if text:
                    yield from self._add(TextBlock, text)
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
                case TokenIdsEvent(ids):
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
        eager = use is not CLIENTS or name in self._eager
        return ToolUseBlock(len(self._blocks), self._call_id(start), name, eager, use)

    def _use(self, name: str) -> Use:
        if name not in self._response.request.gateway_tools:
            return CLIENTS
        uses = (feature.use(name) for feature in self._features)
        return next((use for use in uses if use is not None), GATEWAYS)

    def _call_id(self, start: CallStart) -> str:
        shown = shown_id(self._response.call_id(start), self._response.head.id, start.index)
        return f"{self._use(start.name).prefix}{shown}"

    def _results(self, call_id: str, shown: object) -> list[dict[str, Any]]:
        results = (feature.result(call_id, shown) for feature in self._features)
        return [block for block in results if block is not None]

    def _citations(self, text: str) -> Iterator[dict[str, Any]]:
        for feature in self._features:
            yield from feature.citations(text)

    def _add(self, kind: type[TextBlock | ThinkingBlock], text: str) -> Iterator[Event]:
        if not isinstance(self._open, kind):
            yield from self._close()
            at, is_text = len(self._blocks), kind is TextBlock
            yield from self._begin(
                TextBlock(at, self._citations) if is_text else self._thinking(at)
            )
        assert isinstance(self._open, TextBlock | ThinkingBlock)
        yield from self._open.add(text)

    def _begin(self, block: Block) -> Iterator[Event]:
        self._blocks.append(block)
        self._open = block
        yield from block.begin()

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            yield from self._open.end()
        self._open = None
