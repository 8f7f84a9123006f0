"""Bounds on the lengths of the strings that a pattern matches, by its syntax alone.

They take as many steps as the pattern has parts, however often these are repeated. An automaton of
long strings would have too many states. Look-aheads are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from .syntax import (
    Alternatives,
    Anchor,
    BackReference,
    Characters,
    Group,
    Part,
    Repeated,
    Sequence,
)


def lengths(part: Part) -> tuple[int, int | None]:
    """No string in which a pattern has a match is shorter or longer, in characters. None: there is
    no longest one, or it is not known."""
    least, most = _match(part)
    whole = _is_anchored(part, end=False) and _is_anchored(part, end=True)
    return least, most if whole else None


def _match(part: Part) -> tuple[int, int | None]:
    """The lengths of a match."""
    match part:
        case Characters():
            return 1, 1
        case Sequence(parts):
            found = [_match(each) for each in parts]
            return sum(least for least, _ in found), _sum(most for _, most in found)
        case Alternatives(options):
            found = [_match(each) for each in options]
            ends = [most for _, most in found if most is not None]
            longest = max(ends) if len(ends) == len(found) else None
            return min(least for least, _ in found), longest
        case Repeated(inside, fewest, largest):
            least, most = _match(inside)
            if most is not None and largest is not None:
                return least * fewest, most * largest
            return least * fewest, 0 if 0 in (most, largest) else None
        case Group(inside):
            return _match(inside)
        case BackReference():
            return 0, None
    return 0, 0


def _sum(lengths: Iterable[int | None]) -> int | None:
    total = 0
    for each in lengths:
        if each is None:
            return None
        total += each
    return total


def _is_anchored(part: Part, *, end: bool) -> bool:
    """Whether each match touches the start of the string, or the `end`: an anchor that is part of
    the match, wherever it is, allows nothing before it or after it."""
    match part:
        case Anchor(at_end):
            return at_end == end
        case Sequence(parts):
            return any(_is_anchored(each, end=end) for each in parts)
        case Alternatives(options):
            return all(_is_anchored(each, end=end) for each in options)
        case Repeated(inside, fewest, _):
            return fewest > 0 and _is_anchored(inside, end=end)
        case Group(inside):
            return _is_anchored(inside, end=end)
    return False
