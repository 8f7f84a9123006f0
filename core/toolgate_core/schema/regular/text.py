"""Patterns in the part of JavaScript's syntax that all readers share.

Rust's regex and fancy-regex (jsonschema-rs, llguidance) and Python's `re` read these texts as
JavaScript does, with and without the flag `u`. Classes are ranges of characters and escapes of
single ones.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .characters import WORD, inside_class, written
from .reading import parse
from .syntax import (
    Alternatives,
    Anchor,
    BackReference,
    Boundary,
    Characters,
    Group,
    Look,
    Part,
    Repeated,
    Sequence,
    Unsupported,
)

_ESCAPED = r"\\[\\/^$.*+?()[\]{}|nrt-]"
_CLASS_PART = rf"(?:[^\\[\]^&~-]|{_ESCAPED})"
_CLASS = rf"\[\^?-?(?:\\[dw]|{_CLASS_PART}(?:-{_CLASS_PART})?)+-?\]"
_PLAIN = re.compile(
    rf"(?:[\^$|]|\((?:\?:(?!\)))?|(?:[^\\[\](){{}}.*+?^$|]|\)|\\[dw]|{_ESCAPED}|{_CLASS})"
    r"(?:(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??)?)*"
)
"""Patterns of which all readers have the same reading already."""
_SEQUENCE, _ATOM = 1, 2


def is_portable(pattern: str) -> bool:
    """Whether all readers read a pattern in the same way already, if it is one."""
    return _PLAIN.fullmatch(pattern) is not None


@lru_cache(maxsize=4_096)
def portable(pattern: str) -> str:
    """The pattern in the shared syntax. The same one if it is written so already, or if it can't be
    translated."""
    if is_portable(pattern):
        return pattern
    try:
        return text_of(parse(pattern))
    except (Unsupported, RecursionError):
        return pattern


def text_of(part: Part, around: int = 0) -> str:
    """A pattern. `around`: 1 in a sequence, 2 before a quantifier. Raises Unsupported."""
    match part:
        case Characters():
            return _characters(part)
        case Sequence(parts):
            text = "".join(text_of(each, _SEQUENCE) for each in parts)
            return f"(?:{text})" if around == _ATOM else text
        case Alternatives(options):
            text = "|".join(map(text_of, options))
            return f"(?:{text})" if around else text
        case Repeated(one, least, most, lazy):
            text = f"{text_of(one, _ATOM)}{quantifier(least, most)}{'?' if lazy else ''}"
            return f"(?:{text})" if around == _ATOM else text
        case Anchor(end):
            return "$" if end else "^"
        case Look(one, negative, behind):
            return f"(?{'<' if behind else ''}{'!' if negative else '='}{text_of(one)})"
        case Boundary(negative):
            return text_of(_boundary(negative), around)
        case Group(one):
            return f"({text_of(one)})"
        case BackReference(number):
            return rf"(?:\{number})"
    raise Unsupported("it has no text")


def _characters(part: Characters) -> str:
    if not part.properties:
        return written(part.ranges)
    properties = "".join(rf"\{each}" for each in sorted(part.properties))
    if not part.ranges and not part.excluded and len(part.properties) == 1:
        return properties
    return f"[{'^' if part.excluded else ''}{inside_class(part.ranges)}{properties}]"


def quantifier(least: int, most: int | None) -> str:
    usual = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if usual is not None:
        return usual
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


def _boundary(negative: bool) -> Part:
    r"""`\b` or `\B` by look-around, because they have Unicode's words in Rust."""
    word = Characters(WORD)
    return Alternatives(
        (
            Sequence((Look(word, False, behind=True), Look(word, not negative))),
            Sequence((Look(word, True, behind=True), Look(word, negative))),
        )
    )
