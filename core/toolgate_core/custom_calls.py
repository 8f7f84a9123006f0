"""Calls of custom tools: the argument `input` is converted from JSON to plain text, incrementally.

The last character of an input is withheld until the end of its call, so that the input of a call
that is cut does not look complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from .custom_tools import INPUT
from .deltas import ArgumentsDelta, CallEnd, CallStart, Event, Finish, InputDelta

_BEGIN = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r'\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])')
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F][0-9A-Fa-f]{2}")
_UNICODE_LENGTH = 6
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class CustomCalls:
    """Converts the events of one choice. `names` are those of the custom tools."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._input: InputText | None = None

    def converted(self, events: list[Event]) -> list[Event]:
        if not self._names:
            return events
        return [each for event in events for each in self._converted(event)]

    def _converted(self, event: Event) -> list[Event]:
        match event:
            case CallStart(_, name):
                self._input = InputText() if name in self._names else None
                return [event if self._input is None else replace(event, custom=True)]
            case ArgumentsDelta(index, text, logprobs) if self._input is not None:
                text = self._input.feed(text)
                return [InputDelta(index, text, logprobs)] if text or logprobs else []
            case CallEnd(index) if self._input is not None:
                last = self._input.last()
                self._input = None
                return [InputDelta(index, last), event] if last else [event]
            case Finish():
                self._input = None
        return [event]


class InputText:
    """The text in `{"input": "…"}`."""

    def __init__(self) -> None:
        self._pending = ""
        self._begun = self._ended = False
        self._withheld = ""

    def feed(self, text: str) -> str:
        """The plain text that follows, without the character that is withheld."""
        if self._ended:
            return ""
        self._pending += text
        if not self._begun:
            begin = _BEGIN.match(self._pending)
            if begin is None:
                return ""
            self._begun, self._pending = True, self._pending[begin.end() :]
        known = self._withheld + "".join(self._parts())
        self._withheld = known[-1:]
        return known[:-1]

    def last(self) -> str:
        """The withheld character, at the end of the call."""
        last, self._withheld = self._withheld, ""
        return last

    def _parts(self) -> Iterable[str]:
        text, at = self._pending, 0
        while at < len(text):
            if plain := _PLAIN.match(text, at):
                yield plain.group()
                at = plain.end()
                continue
            if text[at] == '"':
                self._ended = True
                break
            escape = _ESCAPE.match(text, at)
            if escape is None:
                break  # incomplete
            if _HIGH_SURROGATE.match(text, at):
                low = _LOW_SURROGATE.match(text, escape.end())
                if (
                    low is None
                    and len(text) - escape.end() < _UNICODE_LENGTH
                    and ('"' not in text[escape.end() :])
                ):
                    break  # the other half may follow
                end = low.end() if low else escape.end()
            else:
                low, end = None, escape.end()
            char: str = json.loads(f'"{text[at:end]}"')
            # Half of a pair is no text. The validation of the call finds it.
            yield _REPLACEMENT if "\ud800" <= char <= "\udfff" else char
            at = end
        self._pending = text[at:]
