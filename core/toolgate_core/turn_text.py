"""The text of one turn → its message: content, reasoning and calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .deltas import ArgumentsDelta, CallStart, ContentDelta, Event, ReasoningDelta
from .dialects.arguments.parser import overlap
from .dialects.dialect import Dialect, Json
from .dialects.marks import end_texts, mark_texts, marks_in
from .errors import EnforcementFailed
from .segmenter import Segmenter
from .tools import Tool
from .wire import MarkIds

_TEXT = 0
"""The id of all tokens that are not marks; each is one character."""


class NotInDialect(Exception):
    """The text leaves the dialect at `at`, an offset in its UTF-8 bytes."""

    def __init__(self, error: str | EnforcementFailed, before: str) -> None:
        """`before`: the text before that place."""
        self.message = str(error).removesuffix(" Send the request again.")
        self.at = len(before.encode())
        super().__init__(self.message)


@dataclass
class TurnMessage:
    content: str = ""
    reasoning: str = ""
    calls: list[CallStart] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    """JSON text, by call."""

    def add(self, event: Event) -> None:
        match event:
            case ContentDelta(text):
                self.content += text
            case ReasoningDelta(text):
                self.reasoning += text
            case CallStart():
                self.calls.append(event)
                self.arguments.append("")
            case ArgumentsDelta(index, text):
                self.arguments[index] += text


def parse(
    text: str,
    dialect: Dialect,
    tools: Sequence[Tool] | None = None,
    *,
    reasoning_open: bool = False,
) -> TurnMessage:
    """Return the message of `text`, the text of a turn from where the model began. Every mark of
    the dialect in `text` is read as a mark. Without `tools`, calls of all names are accepted.

    Raise NotInDialect."""
    marks = marks_in(dialect.literals, mark_texts(dialect))
    ids = {mark: at for at, mark in enumerate(sorted(marks), _TEXT + 1)}
    names = None if tools is None else {tool.name: tool.parameters for tool in tools}
    segmenter = Segmenter(
        dialect, MarkIds(tokens=ids), schemas=names or {}, reasoning_open=reasoning_open
    )
    message = TurnMessage()
    turn = _without_end(text, dialect)
    at = 0
    try:
        for token, piece in _tokens(turn, ids):
            for event in segmenter.feed([token], [piece]):
                message.add(event)
                if names is not None and isinstance(event, CallStart) and event.name not in names:
                    unknown = f"The tool {event.name!r} is not one of the tools."
                    raise EnforcementFailed(unknown)
            at += len(piece)
    except EnforcementFailed as error:
        if at >= len(turn) - max((overlap(turn, mark) for mark in marks), default=0):
            raise NotInDialect("The text ends inside a mark.", turn) from error
        at = _invalid_json(turn[:at], dialect, message) or at
        raise NotInDialect(error, turn[:at]) from error
    try:
        for event in segmenter.finish("stop"):
            message.add(event)
    except EnforcementFailed as error:
        raise NotInDialect(error, turn) from error
    return message


def _without_end(text: str, dialect: Dialect) -> str:
    """Return `text` without its end-of-turn token. Raise NotInDialect for text after that."""
    ends = [(at, end) for end in end_texts(dialect) if (at := text.find(end)) >= 0]
    if not ends:
        return text
    at, end = min(ends)
    before, after = text[: at + len(end)], text[at + len(end) :]
    if after.strip():
        raise NotInDialect(f"The text continues after the end-of-turn token {end}.", before)
    return text[:at]


def _tokens(text: str, ids: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Yield the marks in `text`, longest first, and the other characters."""
    longest_first = sorted(ids, key=lambda mark: (-len(mark), mark))
    pattern = "|".join([*map(re.escape, longest_first), "."])
    for match in re.finditer(pattern, text, re.DOTALL):
        yield ids.get(match.group(), _TEXT), match.group()


def _invalid_json(text: str, dialect: Dialect, message: TurnMessage) -> int | None:
    """Return the offset of a JSON error in the last call of `text`, which is only noticed at its
    end; None if there is none."""
    if not message.arguments or not dialect.calls or not isinstance(dialect.calls.codec, Json):
        return None
    begin = text.rfind(message.arguments[-1])
    try:
        json.JSONDecoder().raw_decode(text[begin:])
    except json.JSONDecodeError as error:
        return begin + error.pos if begin >= 0 else None
    except RecursionError:
        pass
    return None
