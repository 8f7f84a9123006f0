r"""The white space of patterns, written as characters.

Engines, validators and ECMA-262 disagree on a few characters of `\s` and `\S`: whether U+001C to
U+001F, U+0085 and U+FEFF are white space. Masks allow none of them for either class, so that every
validator accepts what a model writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..regular.characters import (
    SPACE,
    Ranges,
    inside_class,
    other_than,
    ranges_of,
    written,
)

DISPUTED = ranges_of([(0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)])
CERTAIN = other_than(ranges_of([*other_than(SPACE), *DISPUTED]))
POSSIBLE = ranges_of([*SPACE, *DISPUTED])


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
    if r"\s" not in pattern and r"\S" not in pattern:
        return pattern
    made, at = "", 0
    while at < len(pattern):
        if pattern[at] == "[":
            end = _end_of_class(pattern, at)
            made += _class(pattern[at:end], classes)
        else:
            end = at + 1 + (pattern[at] == "\\")
            part = pattern[at:end]
            made += classes.alone(part) if part in (r"\s", r"\S") else part
        at = end
    return made


def _end_of_class(pattern: str, start: int) -> int:
    at = start + 1
    while at < len(pattern) and pattern[at] != "]":
        at += 1 + (pattern[at] == "\\")
    return min(at + 1, len(pattern))


def _class(text: str, classes: _Classes) -> str:
    parts, at = [], 0
    while at < len(text):
        end = at + 1 + (text[at] == "\\")
        parts.append(text[at:end])
        at = end
    if r"\s" in parts and r"\S" in parts:  # any character
        return text
    negated = text.startswith("[^")
    return "".join(
        classes.inside(part, negated) if part in (r"\s", r"\S") else part for part in parts
    )
