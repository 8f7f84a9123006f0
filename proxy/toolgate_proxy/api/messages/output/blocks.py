"""The content blocks of a message. Each one makes the events that announce it.

An event is a dict with its `type`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from ..feature import CLIENTS, Event, Use

MAX_DIGITS = 18
"""Characters of an integer that surely fits 64 bits."""


@dataclass
class TextBlock:
    index: int
    cite: Callable[[str], Iterable[dict[str, Any]]]
    """Returns the citations of the text."""
    _texts: list[str] = field(default_factory=list)
    _citations: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> Iterator[Event]:
        yield block_start(self.index, {"type": "text", "text": ""})

    def add(self, text: str) -> Iterator[Event]:
        if text:
            self._texts.append(text)
            yield block_delta(self.index, {"type": "text_delta", "text": text})

    def end(self) -> Iterator[Event]:
        for citation in self.cite("".join(self._texts)):
            self._citations.append(citation)
            yield block_delta(self.index, {"type": "citations_delta", "citation": citation})
        yield block_stop(self.index)

    def body(self) -> dict[str, Any]:
        citations = {"citations": self._citations} if self._citations else {}
        return {"type": "text", "text": "".join(self._texts), **citations}


@dataclass
class ThinkingBlock:
    """`omitted`: the client gets the signature only."""

    index: int
    sign: Callable[[str], str]
    omitted: bool
    _texts: list[str] = field(default_factory=list)
    _signature: str = ""

    def begin(self) -> Iterator[Event]:
        yield block_start(self.index, {"type": "thinking", "thinking": "", "signature": ""})

    def add(self, text: str) -> Iterator[Event]:
        if text:
            self._texts.append(text)
            if not self.omitted:
                yield block_delta(self.index, {"type": "thinking_delta", "thinking": text})

    def end(self) -> Iterator[Event]:
        self._signature = self.sign("".join(self._texts))
        yield block_delta(self.index, {"type": "signature_delta", "signature": self._signature})
        yield block_stop(self.index)

    def body(self) -> dict[str, Any]:
        text = "" if self.omitted else "".join(self._texts)
        return {"type": "thinking", "thinking": text, "signature": self._signature}


@dataclass
class ToolUseBlock:
    """A call. `eager`: its events are sent before the call is complete; otherwise all at its end.

    A call that is cut has no `content_block_stop`, and is no part of a complete message. Clients
    parse incomplete input, and would take such a block for a call."""

    index: int
    id: str
    name: str
    eager: bool
    use: Use = CLIENTS
    complete: bool = False
    _arguments: list[str] = field(default_factory=list)

    def begin(self) -> Iterator[Event]:
        if self.eager:
            yield self._start()

    def add(self, text: str) -> Iterator[Event]:
        if text:
            self._arguments.append(text)
            if self.eager:
                yield self._input(text)

    def end(self) -> Iterator[Event]:
        """The call is complete and valid."""
        self.complete = True
        if not self.eager:
            yield self._start()
            for text in self._arguments:
                yield self._input(text)
        yield block_stop(self.index)

    def body(self) -> dict[str, Any]:
        text = "".join(self._arguments)
        return self._block(json.loads(text, parse_int=_integer, parse_float=_number))

    def _start(self) -> Event:
        return block_start(self.index, self._block({}))

    def _input(self, text: str) -> Event:
        return block_delta(self.index, {"type": "input_json_delta", "partial_json": text})

    def _block(self, given: Any) -> dict[str, Any]:
        more = self.use.more
        return {"type": self.use.type, "id": self.id, "name": self.name, **more, "input": given}


@dataclass
class ResultBlock:
    """The result of a call that the gateway ran. It is sent as a whole."""

    index: int
    content: dict[str, Any]

    def begin(self) -> Iterator[Event]:
        yield block_start(self.index, self.content)

    def end(self) -> Iterator[Event]:
        yield block_stop(self.index)

    def body(self) -> dict[str, Any]:
        return self.content


def block_start(index: int, block: dict[str, Any]) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, delta: dict[str, Any]) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def _integer(text: str) -> Any:
    """JSON has integers of any length; orjson writes those of 64 bits."""
    return int(text) if len(text) <= MAX_DIGITS else orjson.Fragment(text)


def _number(text: str) -> Any:
    """A number that a double would change keeps its spelling, as in a stream."""
    number = float(text)
    try:
        exact = not math.isinf(number) and Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # its exponent has more than 18 digits
        exact = False
    return number if exact else orjson.Fragment(text)
