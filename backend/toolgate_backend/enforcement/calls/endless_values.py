"""Bounds on values that grammars give no end: the digits of a number, and the nesting of values.

A weak model writes such a value up to the token limit. Masks therefore leave out the tokens that
would exceed a bound. They do so only while other tokens remain: a schema that asks for more (a
multiple, a value beyond a bound, a required member at a greater depth) can be satisfied, and no
mask is empty.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from toolgate_core import grammar_key

from ...grammars.compiled_grammar import MeasuredGrammar
from ...grammars.value_limits import EXPONENT_DIGITS, ValueLimits
from ...tokens import masks
from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow
from ...tokens.units import ESCAPE
from .value_places import BEGIN, JSON, Place, PlaceReader, reader_of

MAX_NESTING = 100
"""Objects and arrays inside each other. Parsers of JSON in Rust allow 128."""
_NUMBER = re.compile(rb"(?<![\w.+-])-?(\d+)(?:\.(\d*))?(?:[eE][+-]?(\d*))?\Z")
_CHARACTERS = b"-+.eE0123456789"
_PART = re.compile(rb"[-+.eE\d]*\d")
"""A token inside a number that ends with a digit."""
_DIGITS = re.compile(rb"\d+")
MARK = ESCAPE + b"["
_BRACKETS = re.compile(rb"[\[{]")
_BESIDE_DIGITS = 16
"""Characters of a number that are not among the digits with a limit."""


class _Rows(NamedTuple):
    """The tokens that open a value."""

    outside: BitmaskRow
    """Outside of strings."""
    inside: BitmaskRow
    """Of these, those that first end the string in which they begin."""

    def at(self, place: Place) -> BitmaskRow:
        return self.inside if place.quote else self.outside


class _Number(NamedTuple):
    """The number that a text ends with."""

    digits_left: int
    """By how many digits it may go on."""
    has_point: bool


class ValueBounds:
    """What the bounds of all sequences share: the classes of tokens."""

    def __init__(self, form: CallForm, unit_bytes: Sequence[bytes], size: int) -> None:
        self.unit_bytes = unit_bytes
        self._reader = reader_of(form)
        self.parts = frozenset(_tokens(unit_bytes, lambda text: bool(_PART.fullmatch(text))))
        begun = {
            at: found[0] for at, text in enumerate(unit_bytes) if (found := _DIGITS.match(text))
        }
        self.longest = max(map(len, begun.values()), default=0)
        self._longer = [
            _row([at for at, digits in begun.items() if len(digits) > count], size)
            for count in range(self.longest)
        ]
        self._zeros = _row([at for at, digits in begun.items() if digits.endswith(b"0")], size)
        opening = _tokens(unit_bytes, _opens)
        self.opening = {token: len(_BRACKETS.findall(unit_bytes[token])) for token in opening}
        """By token: the number of values that it may open."""
        outside = _row(opening, size)
        self._opening = {
            reader: _Rows(outside, _row([t for t in opening if reader.ends(unit_bytes[t])], size))
            for reader in {JSON, self._reader}
        }

    def reader(self, name: str) -> PlaceReader:
        """How the text of a grammar is read."""
        return JSON if name == grammar_key.CONTENT else self._reader

    def digits(self, left: int, *, fraction: bool) -> tuple[BitmaskRow, ...]:
        """The tokens to leave out if a number may have `left` more digits; the later ones if
        nothing remains without the first. A fraction that may not end is too small, and zeros would
        not change that."""
        return (self._longer[left], self._zeros) if fraction else (self._longer[left],)

    def opened(self, reader: PlaceReader, place: Place) -> tuple[BitmaskRow, ...]:
        return (self._opening[reader].at(place),)


class EndlessValues:
    """The bounds on the text of one call, or of constrained content. `tokens` are those so far,
    and change while it is used."""

    def __init__(self, bounds: ValueBounds, tokens: list[int], begun: bytes) -> None:
        self._bounds = bounds
        self._tokens = tokens
        self._begun = begun
        self._opening: list[int] = []
        """For each value that the tokens so far may have opened: the position of the token."""
        self._known: list[tuple[int, int]] = [(0, 0)]
        """Numbers of these at which the nesting was read, with the nesting there."""
        self._last: tuple[int, Place | None] = (0, None)
        """The number of tokens at which the place was read last, with the place."""
        self._text = bytearray(begun)
        """The text up to there."""

    def added(self, token: int) -> None:
        """After a token was added."""
        if token in self._bounds.opening:
            count = self._bounds.opening[token]
            self._opening.extend([len(self._tokens) - 1] * count)

    def truncated(self) -> None:
        """After tokens were removed."""
        del self._opening[bisect_left(self._opening, len(self._tokens)) :]
        while self._known[-1][0] > len(self._opening):
            self._known.pop()
        if self._last[0] > len(self._tokens):
            self._last = (0, None)
            self._text = bytearray(self._begun)

    def refused(self, grammar: MeasuredGrammar) -> tuple[BitmaskRow, ...]:
        """The tokens to leave out of the next mask, as `ValueBounds.digits`; empty if no bound is
        reached."""
        limits = grammar.limits
        if limits is None or not self._tokens:
            return ()
        if self._tokens[-1] in self._bounds.parts:
            found = self._number(limits)
            if found is not None and found.digits_left < self._bounds.longest:
                place = self._place(grammar, limits)
                if place is None or place.quote:
                    return ()
                return self._bounds.digits(found.digits_left, fraction=found.has_point)
        if len(self._opening) - self._known[-1][0] + self._known[-1][1] >= MAX_NESTING:
            return self._nested(grammar, limits)
        return ()

    def _number(self, limits: ValueLimits) -> _Number | None:
        """The number at the end; None if there is none."""
        most = limits.integer + limits.fraction + _BESIDE_DIGITS
        text, begin = b"", self._begun
        for token in reversed(self._tokens):
            text = self._bounds.unit_bytes[token] + text
            if self._bounds.unit_bytes[token].strip(_CHARACTERS):
                begin = b""
                break
            if len(text) > most:
                return _Number(0, b"." in text)
        found = _NUMBER.search(begin + text)
        if found is None:
            return None
        integer, fraction, exponent = found.groups()
        if exponent is not None:
            return _Number(max(0, EXPONENT_DIGITS - len(exponent)), False)
        if fraction is not None:
            return _Number(max(0, limits.fraction - len(fraction)), True)
        return _Number(max(0, limits.integer - len(integer)), False)

    def _nested(self, grammar: MeasuredGrammar, limits: ValueLimits) -> tuple[BitmaskRow, ...]:
        place = self._place(grammar, limits)
        if place is not None and place.depth >= MAX_NESTING:
            return self._bounds.opened(self._bounds.reader(grammar.name), place)
        self._known.append((len(self._opening), max(0, place.depth) if place else 0))
        return ()

    def _place(self, grammar: MeasuredGrammar, limits: ValueLimits) -> Place | None:
        """The place of the next token, read from where it was read last."""
        count, before = self._last
        more = self._tokens[count:]
        self._text += b"".join(map(self._bounds.unit_bytes.__getitem__, more))
        reader = self._bounds.reader(grammar.name)
        place = reader.place(bytes(self._text), limits.tags, before or BEGIN)
        self._last = len(self._tokens), place
        return place


def narrowed(row: BitmaskRow, refused: Sequence[BitmaskRow]) -> BitmaskRow:
    """A mask without the first tokens of `refused` without which some remain."""
    for each in refused:
        left = row & ~each
        if left.any():
            return left
    return row


def _opens(text: bytes) -> bool:
    """Whether a token may open a value. The units of marks have a bracket, too."""
    return not text.startswith(MARK) and _BRACKETS.search(text) is not None


def _tokens(unit_bytes: Sequence[bytes], has: Callable[[bytes], bool]) -> list[int]:
    return [at for at, text in enumerate(unit_bytes) if has(text)]


def _row(tokens: Sequence[int], size: int) -> BitmaskRow:
    return masks.pack(np.array(tokens, dtype=np.int64), size)
