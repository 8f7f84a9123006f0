"""Sets of characters as sorted ranges of code points, without surrogates, and the characters that
match one without regard to case."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

import jsonschema_rs

Ranges = tuple[tuple[int, int], ...]
"""Disjoint ranges, both ends included, that do not touch each other."""

_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


def ranges_of(parts: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(_without_surrogates(parts)):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def _without_surrogates(parts: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    first, last = _SURROGATES
    for low, high in parts:
        for start, end in ((low, min(high, first - 1)), (max(low, last + 1), high)):
            if start <= end:
                yield start, end


def other_than(ranges: Ranges) -> Ranges:
    """All other characters."""
    found, start = [], 0
    for low, high in ranges:
        found.append((start, low - 1))
        start = high + 1
    found.append((start, _LAST))
    return ranges_of((low, high) for low, high in found if low <= high)


def union(*sets: Ranges) -> Ranges:
    return ranges_of(each for ranges in sets for each in ranges)


def has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


ANY = other_than(())
DIGIT = ranges_of([(0x30, 0x39)])
WORD = ranges_of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = ranges_of(
    [
        *((0x9, 0xD), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    ]
)
LINE_END = ranges_of([(0xA, 0xA), (0xD, 0xD), (0x2028, 0x2029)])
"""ECMA-262 §12.3. `.` matches all other characters."""


def written(ranges: Ranges) -> str:
    """A character or a class of a pattern."""
    if ranges in ((), ANY):
        return r"[\s\S]" if ranges else r"[^\s\S]"
    if is_single(ranges):
        return escaped(chr(ranges[0][0]))
    inside = inside_class(ranges)
    outside = "^" + inside_class(other_than(ranges))
    return f"[{min(inside, outside, key=len)}]"


def inside_class(ranges: Ranges) -> str:
    """What stands between the brackets of a class."""
    return "".join(
        escaped(chr(low)) if low == high else f"{escaped(chr(low))}-{escaped(chr(high))}"
        for low, high in ranges
    )


def escaped(character: str) -> str:
    plain = character.isalnum() or ord(character) > 0x9F
    return character if plain else rf"\x{ord(character):02x}"


@lru_cache(maxsize=1_024)
def is_known(name: str) -> bool:
    """Whether there is such a property, written as `p{L}` or `P{L}`."""
    try:
        jsonschema_rs.validator_for({"pattern": rf"\{name}"})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


# --- regard to case ---

_BLOCKS = (
    *((0x0, 0x2FFF), (0xA640, 0xABFF), (0xFB00, 0xFB1F), (0xFF00, 0xFF5F), (0x10400, 0x105FF)),
    *((0x10C80, 0x10D9F), (0x118A0, 0x118DF), (0x16E40, 0x16EFF), (0x1E900, 0x1E943)),
)
"""No other characters have a case."""


def letters_in(ranges: Ranges, *, unicode: bool) -> int:
    """The number of characters of which there are variants."""
    codes, _ = _folding(unicode)
    return sum(bisect_right(codes, high) - bisect_left(codes, low) for low, high in ranges)


def folded(ranges: Ranges, *, unicode: bool) -> Ranges:
    """The characters that match one of these without regard to case. `unicode`: with the flag `u`,
    that is by Unicode's simple case folding, otherwise by capital letters."""
    codes, others = _folding(unicode)
    more = [
        (other, other)
        for low, high in ranges
        for at in range(bisect_left(codes, low), bisect_right(codes, high))
        for other in others[at]
    ]
    return ranges_of([*ranges, *more])


@lru_cache(maxsize=2)
def _folding(unicode: bool) -> tuple[list[int], list[list[int]]]:
    """The characters that match others, in order, and for each of them all that match it."""
    groups: dict[str, list[int]] = defaultdict(list)
    for low, high in _BLOCKS:
        for code in range(low, high + 1):
            character = chr(code)
            groups[_simple(character) if unicode else _capital(character)].append(code)
    others = {code: group for group in groups.values() if len(group) > 1 for code in group}
    codes = sorted(others)
    return codes, [others[code] for code in codes]


def _simple(character: str) -> str:
    for made in (character.casefold(), character.lower()):
        if len(made) == 1:
            return made
    return character


def _capital(character: str) -> str:
    made = character.upper()
    is_foreign = not character.isascii() and made.isascii()
    return character if len(made) != 1 or is_foreign else made
