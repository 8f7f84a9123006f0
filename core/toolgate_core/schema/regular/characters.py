"""Sets of characters as sorted ranges of code points, without surrogates."""

from __future__ import annotations

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


def only(character: str) -> Ranges:
    return ranges_of([(ord(character), ord(character))])


def has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def partition(sets: Iterable[Ranges]) -> list[Ranges]:
    """The largest sets of characters of which each is either inside or outside all of `sets`."""
    distinct = [*dict.fromkeys(sets)]
    borders: dict[int, list[int]] = {0: []}
    for at, ranges in enumerate(distinct):
        for low, high in ranges:
            borders.setdefault(low, []).append(at)
            borders.setdefault(high + 1, []).append(at)
    inside = 0
    parts: dict[int, list[tuple[int, int]]] = {}
    places = sorted(borders)
    for start, end in zip(places, [*places[1:], _LAST + 1], strict=True):
        for at in borders[start]:
            inside ^= 1 << at
        if start < end:
            parts.setdefault(inside, []).append((start, end - 1))
    return [ranges for each in parts.values() if (ranges := ranges_of(each))]


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


_BLOCK = 4_096


@lru_cache(maxsize=1_024)
def is_known(name: str) -> bool:
    """Whether there is such a property, written as `p{L}` or `P{L}`."""
    try:
        jsonschema_rs.validator_for({"pattern": rf"\{name}"})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


@lru_cache(maxsize=128)
def characters_of_property(name: str) -> Ranges | None:
    """None if there is no such property. Takes some hundredths of a second: blocks in which all
    characters are alike are not looked at one by one."""
    if not is_known(name):
        return None
    if name.startswith("P"):
        found = characters_of_property(f"p{name[1:]}")
        return None if found is None else other_than(found)
    some = jsonschema_rs.validator_for({"pattern": rf"\{name}"}).is_valid
    other = jsonschema_rs.validator_for({"pattern": rf"\P{name[1:]}"}).is_valid
    every = _every_character()
    parts = []
    pending = [(start, min(start + _BLOCK, len(every))) for start in range(0, len(every), _BLOCK)]
    while pending:
        start, end = pending.pop()
        text = every[start:end]
        if not some(text):
            continue
        if not other(text):
            parts.append((ord(text[0]), ord(text[-1])))
            continue
        middle = (start + end) // 2
        pending += [(start, middle), (middle, end)]
    return ranges_of(parts)


@lru_cache(maxsize=1)
def _every_character() -> str:
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
