r"""The white space of patterns, written as characters.

Engines, validators and ECMA-262 disagree on a few characters of `\s` and `\S`: whether U+001C to
U+001F, U+0085 and U+FEFF are white space. Masks allow none of them for either class, so that every
validator accepts what a model writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..regular.characters import SPACE, Ranges, inside_class, other_than, ranges_of, written

DISPUTED = ranges_of([(0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)])
CERTAIN = other_than(ranges_of([*other_than(SPACE), *DISPUTED]))
POSSIBLE = ranges_of([*SPACE, *DISPUTED])

_WHITE_SPACE = {r"\s", r"\S"}
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_CLASS_OR_ESCAPE = re.compile(r"\[(?:\\.|[^\]\\])*\]?|\\.", re.DOTALL)


def with_certain_white_space(pattern: str) -> str:
    r"""The pattern without disputed characters for `\s` and `\S`. The same pattern if it does not
    have them, or has a negative look-ahead, in which it would match more."""
    if "(?!" in pattern:
        return pattern
    return _rewritten(pattern, _Classes(CERTAIN, POSSIBLE))


def with_ecma_white_space(pattern: str) -> str:
    r"""The same pattern with the characters that ECMA-262 has for `\s` and `\S`."""
    return _rewritten(pattern, _Classes(SPACE, SPACE))


@dataclass(frozen=True)
class _Classes:
    matched: Ranges
    r"""The characters that `\s` matches."""
    excluded: Ranges
    r"""The characters that `\S` does not match."""

    def alone(self, escape: str) -> str:
        return written(self.matched if escape == r"\s" else other_than(self.excluded))

    def inside(self, escape: str, negated: bool) -> str:
        r"""A part of a class; `negated`: of one like `[^\s]`, which matches all others."""
        if escape == r"\s":
            return inside_class(self.excluded if negated else self.matched)
        return inside_class(other_than(self.matched if negated else self.excluded))


def _rewritten(pattern: str, classes: _Classes) -> str:
    def part(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("["):
            return _class(text, classes)
        return classes.alone(text) if text in _WHITE_SPACE else text

    return _CLASS_OR_ESCAPE.sub(part, pattern)


def _class(text: str, classes: _Classes) -> str:
    if set(_ESCAPE.findall(text)) >= _WHITE_SPACE:  # any character
        return text
    negated = text.startswith("[^")
    return _ESCAPE.sub(
        lambda found: classes.inside(found[0], negated) if found[0] in _WHITE_SPACE else found[0],
        text,
    )
