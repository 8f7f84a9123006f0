"""Where to continue a call that failed validation: just before a value, not at its beginning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class ValueStart:
    """The first character of a value's content."""

    offset: int
    """In the text of the arguments."""
    scalar: bool
    """Whether the value is not an object or an array."""


def value_starts(arguments: str, pointer: str) -> tuple[ValueStart, ...]:
    """Where to continue, in the order in which to try: the last value inside the value at
    `pointer`, which the model decided last, and the value itself. Empty for text that is not JSON.

    `pointer` is a JSON Pointer (RFC 6901). If a step leads nowhere, the value that contains it
    counts: a required member can be missing.
    """
    try:
        value = _located(arguments, pointer)
        last = value
        while members := [at for _, at in _members(arguments, last)]:
            last = members[-1]
    except (ValueError, IndexError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_start(arguments, at) for at in (last, value)))


def value_span(arguments: str, pointer: str) -> tuple[int, int]:
    """Return where the value at `pointer` begins and ends, as `value_starts` finds it."""
    begin = _located(arguments, pointer)
    return begin, _DECODER.raw_decode(arguments, begin)[1]


def _located(text: str, pointer: str) -> int:
    at = _after_space(text, 0)
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        # Of several members with one name, the last one counts.
        found = [start for member, start in _members(text, at) if member == name]
        if not found:
            break
        at = found[-1]
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The names (indices in an array) and positions of the values inside the value at `at`."""
    opened = text[at]
    if opened not in "{[":
        return
    at, index = _after_space(text, at + 1), 0
    while text[at] not in "}]":
        name = str(index)
        if opened == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # ":"
        yield name, at
        _, at = _DECODER.raw_decode(text, at)
        at, index = _after_space(text, at), index + 1
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _start(text: str, at: int) -> ValueStart:
    """A string's content begins behind its quotation mark, which most strings share."""
    return ValueStart(at + (text[at] == '"'), scalar=text[at] not in "{[")
