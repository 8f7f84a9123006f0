r"""The white space of patterns whose strings masks let a model write.

Validators disagree with ECMA-262 on a few characters of `\s` and `\S`: whether U+001C to U+001F,
U+0085 and U+FEFF are white space. Masks allow none of them for either class, so that every
validator accepts what a model writes.
"""

from __future__ import annotations

from dataclasses import replace

from ..regular.characters import Ranges, has, other_than, ranges_of, union
from ..regular.syntax import (
    Alternatives,
    Characters,
    Group,
    Look,
    Part,
    Repeated,
    Sequence,
)

DISPUTED = ranges_of([(0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)])
_OGHAM, _AFTER_OGHAM, _SEPARATOR, _NEXT_LINE, _MARK = 0x1680, 0x1681, 0x1C, 0x85, 0xFEFF


def with_certain_white_space(part: Part) -> Part:
    r"""The pattern without disputed characters for `\s` and `\S`. In a negative look-around it
    stays as it is: there it would match more."""
    match part:
        case Characters() if _tells_white_space(part.ranges):
            change = _with if part.excluded else _without
            return replace(part, ranges=change(part.ranges))
        case Sequence(parts):
            return Sequence(tuple(map(with_certain_white_space, parts)))
        case Alternatives(options):
            return Alternatives(tuple(map(with_certain_white_space, options)))
        case Repeated(one) | Group(one) | Look(one, negative=False):
            return replace(part, part=with_certain_white_space(one))
    return part


def _tells_white_space(ranges: Ranges) -> bool:
    r"""Whether a class has `\s` or `\S` in it, by a rare space, a character that is none, and
    disputed ones. Of both together, it has all characters."""
    is_space, is_other = has(ranges, _OGHAM), has(ranges, _AFTER_OGHAM)
    are_disputed = [has(ranges, each) for each in (_SEPARATOR, _NEXT_LINE)]
    return (
        is_space != is_other and has(ranges, _MARK) == is_space and are_disputed == [is_other] * 2
    )


def _without(ranges: Ranges) -> Ranges:
    return other_than(_with(other_than(ranges)))


def _with(ranges: Ranges) -> Ranges:
    return union(ranges, DISPUTED)
