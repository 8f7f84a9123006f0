"""Letters that patterns with the flag `i` do not tell apart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import lru_cache

from .characters import Ranges, ranges_of

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
