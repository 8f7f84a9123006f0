"""Goldens of dialects as tokens: marks are one token each, the other text is split anywhere."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
)
from toolgate_core.dialects.dialect import Dialect, Golden, GoldenCall
from toolgate_core.dialects.marks import marks_in
from toolgate_core.segmenter import Segmenter
from toolgate_core.wire import MarkIds

Token = tuple[int, str]

END, ORDINARY, FIRST_MARK = 1, 2, 100

SCHEMAS: Mapping[str, Any] = {
    "f": {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "n": {"type": "integer"},
            "ok": {"type": "boolean"},
            "l": {"type": "array", "items": {"type": "string"}},
            "o": {"type": "object"},
        },
    },
    "g": {"type": "object", "properties": {}},
}
"""The parameters of the tools of all goldens."""


class GoldenTokens:
    """The tokens of a dialect's goldens. `special` are the texts that are single tokens."""

    def __init__(
        self, dialect: Dialect, special: Collection[str], schemas: Mapping[str, Any] = SCHEMAS
    ) -> None:
        found = sorted(marks_in(dialect.literals, special), key=lambda text: (-len(text), text))
        self._dialect, self._schemas = dialect, schemas
        self._ids = {text: FIRST_MARK + at for at, text in enumerate(found)}
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def units(self, text: str) -> list[Token]:
        """The marks and the characters of `text`."""
        units: list[Token] = []
        at = 0
        while at < len(text):
            match = self._pattern.match(text, at) if self._pattern else None
            written = match.group() if match else text[at]
            units.append((self._ids.get(written, ORDINARY), written))
            at += len(written)
        return units

    def segmenter(self, golden: Golden) -> Segmenter:
        return Segmenter(
            self._dialect,
            MarkIds(tokens=self._ids, end_of_turn=(END,)),
            schemas=self._schemas,
            reasoning_open=golden.reasoning_open,
        )

    def segment(
        self, golden: Golden, parts: Sequence[Sequence[Token]], *, cut: bool = False
    ) -> list[Event]:
        """The events of the tokens, fed in these parts, with adjacent deltas joined. `cut`: the
        maximum of tokens ended the response, and no end-of-turn token did."""
        segmenter = self.segmenter(golden)
        events: list[Event] = []
        for part in parts if cut else (*parts, [(END, "")]):
            events += segmenter.feed([token for token, _ in part], [text for _, text in part])
        return joined_deltas([*events, *segmenter.finish("length" if cut else "stop")])


def joined(units: Sequence[Token]) -> list[Token]:
    """Adjacent ordinary characters as one token."""
    tokens: list[Token] = []
    for token, text in units:
        if tokens and token == ORDINARY == tokens[-1][0]:
            tokens[-1] = (ORDINARY, tokens[-1][1] + text)
        else:
            tokens.append((token, text))
    return tokens


def two_way_splits(units: Sequence[Token]) -> Iterator[tuple[list[Token], list[Token]]]:
    """All splits of the text in two parts between two characters or marks."""
    for at in range(1, len(units)):
        yield joined(units[:at]), joined(units[at:])


def joined_deltas(events: Sequence[Event]) -> list[Event]:
    """Adjacent deltas of one kind as one, which is all that may differ between splits."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, ContentDelta) and isinstance(last, ContentDelta):
            found[-1] = ContentDelta(last.text + event.text, last.logprobs + event.logprobs)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            found[-1] = ReasoningDelta(last.text + event.text)
        elif isinstance(event, ArgumentsDelta) and isinstance(last, ArgumentsDelta):
            found[-1] = ArgumentsDelta(last.index, last.text + event.text)
        else:
            found.append(event)
    return found


def message_of(events: Sequence[Event]) -> Golden:
    """The message that the events are, as a golden without text."""
    content = reasoning = None
    calls: list[GoldenCall] = []
    for event in events:
        if isinstance(event, ContentDelta):
            content = (content or "") + event.text
        elif isinstance(event, ReasoningDelta):
            reasoning = (reasoning or "") + event.text
        elif isinstance(event, CallStart):
            calls.append(GoldenCall(event.name, {}, event.id))
        elif isinstance(event, ArgumentsDelta):
            last = calls[event.index]
            calls[event.index] = GoldenCall(last.name, json.loads(event.text), last.id)
    return Golden(text="", content=content, reasoning=reasoning, calls=tuple(calls))


def ended_calls(events: Sequence[Event]) -> int:
    return sum(isinstance(event, CallEnd) for event in events)


def finish_of(golden: Golden) -> Finish:
    return Finish("tool_calls" if golden.calls else "stop")
