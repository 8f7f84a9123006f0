"""Parsers of arguments that are fed a text in parts."""

from __future__ import annotations

from collections.abc import Callable

from toolgate_core.dialects.arguments.parser import ArgumentsParser


def parsed_in_parts(make: Callable[[], ArgumentsParser], text: str) -> tuple[str, str]:
    """The JSON of an encoded text and the rest, after checking that all splits in two give the
    same."""
    found = None
    for at in range(len(text) + 1):
        parser = make()
        written = parser.feed(text[:at])
        copied = parser.copy()
        more = parser.feed(text[at:])
        assert parser.finished
        assert copied.feed(text[at:]) == more
        found = found or (written + more, parser.rest)
        assert (written + more, parser.rest) == found
    assert found is not None
    return found
