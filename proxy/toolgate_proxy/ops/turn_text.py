"""Conversion of the text of one turn to a message, for `toolgate parse` and the
playground."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.deltas import ArgumentsDelta, CallStart, ContentDelta, Event, ReasoningDelta
from toolgate_core.dialects.arguments.parser import overlap
from toolgate_core.dialects.codecs import Json
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.mark_texts import end_texts, mark_texts
from toolgate_core.dialects.marks import marks_in
from toolgate_core.errors import EnforcementFailed
from toolgate_core.segmenter import Segmenter
from toolgate_core.tools import Tool
from toolgate_core.wire import MarkIds

_TEXT = 0
"""The id of all tokens that are not marks; each is one character."""
_ALPHABET = string.ascii_letters + string.digits


class NotInDialect(Exception):
    """The text leaves the dialect at `at`, an offset in its UTF-8 bytes."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


@dataclass
class Message:
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

    def body(self) -> dict[str, Any]:
        """Return the message of a chat completion. Calls without an id in the text get a random
        one."""
        other = self.calls or self.reasoning
        body: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or (None if other else ""),
            "refusal": None,
        }
        if self.reasoning:
            body["reasoning_content"] = self.reasoning
        if self.calls:
            body["tool_calls"] = [
                {
                    "id": call.id
                    or "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(24)),
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments},
                }
                for call, arguments in zip(self.calls, self.arguments, strict=True)
            ]
        return body


def parse(
    text: str,
    dialect: Dialect,
    tools: Sequence[Tool] | None = None,
    *,
    reasoning_open: bool = False,
) -> Message:
    """Return the message of `text`, the text of a turn from where the model began. Every mark of
    the dialect in `text` is read as a mark. Without `tools`, calls of all names are accepted.

    Raises NotInDialect."""
    marks = marks_in(dialect.literals, mark_texts(dialect))
    ids = {mark: at for at, mark in enumerate(sorted(marks), _TEXT + 1)}
    names = None if tools is None else {tool.name: tool.parameters for tool in tools}
    segmenter = Segmenter(
        dialect, MarkIds(tokens=ids), schemas=names or {}, reasoning_open=reasoning_open
    )
    message = Message()
    turn = _without_end(text, dialect)
    at = 0
    try:
        for token, piece in _tokens(turn, ids):
            for event in segmenter.feed([token], [piece]):
                message.add(event)
                _check_name(event, names)
            at += len(piece)
    except EnforcementFailed as error:
        if at >= len(turn) - max((overlap(turn, mark) for mark in marks), default=0):
            raise NotInDialect("The text ends inside a mark.", len(turn.encode())) from error
        at = _invalid_json(turn[:at], dialect, message) or at
        raise _error(error, turn[:at]) from error
    try:
        for event in segmenter.finish("stop"):
            message.add(event)
    except EnforcementFailed as error:
        raise _error(error, turn) from error
    return message


def needs_tools(dialect: Dialect) -> bool:
    """Return whether calls begin with the name of a tool, so that they cannot be found without
    tools."""
    return dialect.calls is not None and not (
        dialect.calls.begin or isinstance(dialect.calls.call[0], str)
    )


def _error(error: EnforcementFailed, before: str) -> NotInDialect:
    message = error.message.removesuffix(" Send the request again.")
    return NotInDialect(message, len(before.encode()))


def _without_end(text: str, dialect: Dialect) -> str:
    """Return `text` without its end-of-turn token. Raises NotInDialect for text after that."""
    found = [(at, end) for end in end_texts(dialect) if (at := text.find(end)) >= 0]
    if not found:
        return text
    at, end = min(found)
    if text[at + len(end) :].strip():
        raise NotInDialect(
            f"The text continues after the end-of-turn token {end}.",
            len(text[: at + len(end)].encode()),
        )
    return text[:at]


def _tokens(text: str, ids: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Yield the marks in `text`, longest first, and the other characters."""
    longest_first = sorted(ids, key=lambda mark: (-len(mark), mark))
    pattern = "|".join([*map(re.escape, longest_first), "."])
    for found in re.finditer(pattern, text, re.DOTALL):
        yield ids.get(found.group(), _TEXT), found.group()


def _check_name(event: Event, names: Mapping[str, Any] | None) -> None:
    if isinstance(event, CallStart) and names is not None and event.name not in names:
        raise EnforcementFailed(f"The tool {event.name!r} is not one of the tools.")


def _invalid_json(text: str, dialect: Dialect, message: Message) -> int | None:
    """Return the offset of a JSON error in the last call of `text`, which is only noticed at its
    end; None if there is none."""
    if not message.arguments or not dialect.calls or not isinstance(dialect.calls.codec, Json):
        return None
    written = message.arguments[-1]
    begin = text.rfind(written)
    if begin < 0:
        return None
    try:
        json.JSONDecoder().raw_decode(text[begin:])
    except json.JSONDecodeError as error:
        return begin + error.pos
    except RecursionError:
        return None
    return None
