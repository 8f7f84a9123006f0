"""Numbers in the texts by which nodes are found.

After a number the same may follow whatever the number is, and inside a free one its digits do not
matter either, but for a zero at the beginning. Without this, a graph would have nodes for the rest
of a call after each number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .free_strings import FreeTexts
from .node import Node
from .value_places import value_of

_BEGUN = re.compile(rb"-|-?\d[\d.eE+-]*")
_WHOLE = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CHARACTERS = frozenset(b"0123456789.eE+-")
_WORD = re.compile(rb"[\w.+-]")
_INTEGER = re.compile(rb"(-?)(0?)(.*)", re.DOTALL)
_DIGIT = re.compile(rb"\d")
ANY = b"0"
"""Stands for every number that is complete."""


class NumberPlace(NamedTuple):
    start: Node
    """The node before the number."""
    key: bytes
    """The text since then, in a form that texts with the same state share."""
    goes_on: bool
    """Whether the text ends in the number."""
    is_free: bool
    """Whether the state depends on this text only."""


class Numbers:
    """The numbers of one grammar."""

    def __init__(self, free: FreeTexts) -> None:
        self._are_proven = bool(free.strings)
        self._are_free = free.numbers

    def place_of(self, node: Node, text: bytes) -> NumberPlace | None:
        """Return the place after a token with this text; None if it is not in a number, or behind
        one."""
        value = None if node.place is None else value_of(node.place)
        if not self._are_proven or value is None or value.quote:
            return None
        start = node.number if value.word else node
        if start is None:
            return None
        if _CHARACTERS.issuperset(text):
            whole = value.word + text
            if not _BEGUN.fullmatch(whole):
                return None
            key = _shape(whole) if self._are_free else whole
            return NumberPlace(start, key, goes_on=True, is_free=self._are_free)
        if value.word and _WHOLE.fullmatch(value.word) and not _WORD.match(text):
            return NumberPlace(start, ANY + text, goes_on=False, is_free=True)
        return None


def _shape(number: bytes) -> bytes:
    """Return a number of which all digits are 1, but a zero at the beginning."""
    found = _INTEGER.fullmatch(number)
    assert found is not None
    return found[1] + found[2] + _DIGIT.sub(b"1", found[3])
