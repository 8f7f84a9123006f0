"""Bounds on values that grammars give no end: the digits of a number, and the nesting of values.

A weak model writes such a value up to the token limit. Masks therefore leave out the tokens that
would exceed a bound. They do so only while other tokens remain: a schema that asks for more (a
multiple, a value beyond a bound, a required member at a greater depth) can be satisfied, and no
mask is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isinf

from toolgate_core import grammar_key

from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow, pack
from ...tokens.units import ESCAPE, units
from ..compiled_grammar import EXPONENT_DIGITS, MeasuredGrammar, ValueLimits
from .value_places import JSON, Place, PlaceReader, Tags, reader_of, value_of

MAX_NESTING = 100
"""Objects and arrays inside each other. Parsers of JSON in Rust allow 128."""
_NUMBER = re.compile(rb"-?(\d+)(?:\.(\d*))?(?:[eE][+-]?(\d*))?")
_DIGITS = re.compile(rb"\d+")
MARK = ESCAPE + b"["
_BRACKETS = re.compile(rb"[\[{]")
_STRINGS = re.compile(r'"([^"]*)')


class ValueBounds:
    """What the bounds of all grammars share: the classes of tokens."""

    def __init__(self, form: CallForm, unit_bytes: Sequence[bytes], size: int) -> None:
        self._form = form
        self._reader = reader_of(form)
        self._begun = begun = {
            at: found[0] for at, text in enumerate(unit_bytes) if (found := _DIGITS.match(text))
        }
        self._size = size
        self.longest = max(map(len, begun.values()), default=0)
        """The most digits of a token."""
        self._longer = [
            pack((at for at, digits in begun.items() if len(digits) > count), size)
            for count in range(self.longest)
        ]
        self._zeros = pack((at for at, digits in begun.items() if digits.endswith(b"0")), size)
        opening = [at for at, text in enumerate(unit_bytes) if _opens(text)]
        outside = pack(opening, size)
        self._opening = {
            reader: (outside, pack((t for t in opening if reader.ends(unit_bytes[t])), size))
            for reader in {JSON, self._reader}
        }

    def of(self, grammar: MeasuredGrammar) -> GrammarBounds | None:
        """Return the bounds of a grammar; None if it has none, as it is one of text."""
        limits, tags = grammar.limits, grammar.compiled.tags
        if limits is None:
            return None
        if grammar.name == grammar_key.CONTENT:
            return GrammarBounds(self, limits, JSON, tags, b"")
        form = self._form
        head = units(form.begin + form.head(grammar.name), form.marks)
        return GrammarBounds(self, limits, self._reader, tags, head)

    def literals(self, name: str) -> Iterator[str]:
        """Yield the strings in the text of a call around its arguments."""
        for text in self._form.grammar_texts(name):
            yield from _STRINGS.findall(text)

    def digits(self, left: int, *, fraction: bool) -> tuple[BitmaskRow, ...]:
        """Return the tokens to leave out if a number may have `left` more digits; the later ones if
        nothing remains without the first. A fraction that may not end is too small, and zeros would
        not change that."""
        return (self._longer[left], self._zeros) if fraction else (self._longer[left],)

    def exponent(self, number: bytes, left: int) -> tuple[BitmaskRow, ...]:
        """Return the tokens to leave out in the exponent of a number, which may have `left` more
        digits: those with which it is infinite in double precision, as most parsers read it."""
        beyond = (
            at
            for at, digits in self._begun.items()
            if len(digits) > left or isinf(float(number + digits))
        )
        return (pack(beyond, self._size),)

    def opening(self, reader: PlaceReader, *, quoted: bool) -> BitmaskRow:
        """Return the tokens that open a value. `quoted`: those that first end the string in which
        they begin."""
        return self._opening[reader][quoted]


class GrammarBounds:
    """The bounds on the texts of one grammar."""

    def __init__(
        self,
        shared: ValueBounds,
        limits: ValueLimits,
        reader: PlaceReader,
        tags: Tags,
        head: bytes,
    ) -> None:
        """`head` is the text of a call before that of the grammar."""
        self._shared = shared
        self._limits = limits
        self._reader = reader
        self._tags = tags
        self.begin = self.after(reader.begin, head)
        """The place at which the grammar's text begins."""

    def after(self, place: Place, text: bytes) -> Place:
        """Return the place after some more text."""
        return self._reader.after(place, text, self._tags)

    def refused(self, place: Place) -> tuple[BitmaskRow, ...]:
        """Return the tokens to leave out of the mask at a place; the later ones if nothing remains
        without the first. Empty if no bound is reached."""
        value = value_of(place)
        if value is None:
            return ()
        if value.word and (number := _NUMBER.fullmatch(value.word)):
            left, is_fraction = self._digits_left(number)
            if number[3] is not None:
                return self._shared.exponent(value.word, left)
            if left < self._shared.longest:
                return self._shared.digits(left, fraction=is_fraction)
        if value.depth >= MAX_NESTING:
            return (self._shared.opening(self._reader, quoted=bool(value.quote)),)
        return ()

    def _digits_left(self, number: re.Match[bytes]) -> tuple[int, bool]:
        """Return by how many digits a number may go on, and whether these are of a fraction."""
        integer, fraction, exponent = number.groups()
        if exponent is not None:
            return max(0, EXPONENT_DIGITS - len(exponent)), False
        if fraction is not None:
            return max(0, self._limits.fraction - len(fraction)), True
        return max(0, self._limits.integer - len(integer)), False


def narrowed(row: BitmaskRow, refused: Sequence[BitmaskRow]) -> BitmaskRow:
    """Return a mask without the first tokens of `refused` without which some remain."""
    for refused_row in refused:
        left = row & ~refused_row
        if left.any():
            return left
    return row


def _opens(text: bytes) -> bool:
    """Return whether a token may open a value. The units of marks have a bracket, too."""
    return not text.startswith(MARK) and _BRACKETS.search(text) is not None
